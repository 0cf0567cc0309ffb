/* graph.c - a graph is a chain of work, captured from one stream; launched, it is one piece. */
#include "kernels/simt/device_state.h"

#include <stdlib.h>

#include "base/status.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    cudaError_t e = device_enter();
    if (!e && mode != cudaStreamCaptureModeThreadLocal) {
        e = cudaErrorNotSupported;
    }
    return device_leave(e ? e : stream_capture_begin(stream));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    cudaError_t e = device_enter();
    struct op_list ops = {NULL, NULL};
    *out = NULL;
    e = e ? e : stream_capture_end(stream, &ops);
    if (!e) {
        *out = xcalloc(1, sizeof(**out));
        (*out)->ops = ops;
        device_made();
    }
    return device_leave(e);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags) {
    cudaError_t e = device_enter();
    if (!e && (!graph || flags)) {
        e = cudaErrorInvalidValue;
    }
    if (!e) {
        *out = xcalloc(1, sizeof(**out));
        device_made();
        for (const struct op *op = graph->ops.first; op; op = op->next) {
            op_append(&(*out)->ops, op_copy(op));
        }
    }
    return device_leave(e);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    cudaError_t e = device_enter();
    if (!e && fault_at_launch()) {
        e = cudaErrorLaunchOutOfResources;
    }
    return device_leave(e ? e : stream_put_graph(stream, graph));
}

static cudaError_t destroy(struct simt_graph *graph) {
    const cudaError_t e = device_enter();
    if (graph && (e || stream_drain(NULL))) { // where something hangs it may still be named
        op_list_free(&graph->ops);
        free(graph);
    }
    return device_leave(e);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return destroy(graph);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    return destroy(graph);
}
