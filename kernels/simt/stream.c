/* stream.c - streams, events and graphs: lists of work, and who may go on.
 * Work waits until somebody waits for it. Then one piece after another is taken from a stream that
 * the seed picks among those that can go on; so work that no event orders runs in any order, and
 * what the host reads before it waited was not written yet. Events count: a record has a number,
 * and a wait is for the number that was the latest when it was put into its stream. */
#include "kernels/simt/device_state.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/simt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"

struct simt_stream {
    struct op_list ops, captured;
    bool is_capturing, is_broken, is_hung;
    struct simt_stream *next;
};
struct simt_event {
    int64_t n_recorded, n_done, done_ns;
    bool is_timed;
};
static struct simt_stream unnamed; // the stream NULL
static struct simt_stream *streams = &unnamed;
static _Thread_local struct simt_stream *capturing; // by this thread

static struct simt_stream *named(cudaStream_t stream) {
    return stream ? stream : &unnamed;
}

void op_append(struct op_list *list, struct op *op) {
    op->next = NULL;
    if (list->last) {
        list->last->next = op;
    } else {
        list->first = op;
    }
    list->last = op;
}
static struct op *op_take(struct op_list *list) {
    struct op *op = list->first;
    list->first = op->next;
    list->last = list->first ? list->last : NULL;
    return op;
}
void op_list_free(struct op_list *list) {
    while (list->first) {
        free(op_take(list));
    }
}
static struct op *op_create(enum op_kind kind, size_t bytes) {
    struct op *op = xcalloc(1, sizeof(*op) + bytes);
    op->kind = kind, op->bytes = bytes;
    return op;
}
struct op *op_copy(const struct op *op) {
    struct op *copy = op_create(op->kind, op->bytes);
    memcpy(copy, op, sizeof(*op) + op->bytes);
    return copy;
}

static cudaError_t break_capture(struct simt_stream *s) {
    s->is_broken = true;
    return cudaErrorStreamCaptureUnsupported;
}
cudaError_t stream_unsafe_call(void) {
    return capturing ? break_capture(capturing) : cudaSuccess;
}
cudaError_t stream_put(cudaStream_t stream, op_fn *run, const void *arguments, size_t bytes,
                       bool is_kernel) {
    struct simt_stream *s = named(stream);
    if (s->is_broken) {
        return cudaErrorStreamCaptureInvalidated;
    }
    struct op *op = op_create(OP_WORK, bytes);
    op->run = run, op->is_kernel = is_kernel;
    memcpy(op->arguments, arguments, bytes);
    op_append(s->is_capturing ? &s->captured : &s->ops, op);
    return cudaSuccess;
}
/* Of records, waits and graphs: what is captured is a chain of work. */
static cudaError_t put_other(struct simt_stream *s, const struct op *op) {
    if (s->is_capturing) {
        return break_capture(s);
    }
    op_append(&s->ops, op_copy(op));
    return cudaSuccess;
}
cudaError_t stream_put_graph(cudaStream_t stream, struct simt_graph *graph) {
    const struct op op = {.kind = OP_GRAPH, .graph = graph};
    return put_other(named(stream), &op);
}

static bool can_go_on(const struct simt_stream *s) {
    const struct op *op = s->ops.first;
    return op && !s->is_hung && (op->kind != OP_WAIT || op->event->n_done >= op->number);
}
static struct simt_stream *pick(void) {
    struct simt_stream *picked = NULL;
    unsigned n = 0;
    for (struct simt_stream *s = streams; s; s = s->next) {
        if (can_go_on(s) && device_random() % ++n == 0) {
            picked = s;
        }
    }
    return picked;
}

static int64_t now_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* False: it hangs. */
static bool do_work(const struct op *op) {
    if (op->is_kernel && fault_hang()) {
        return false;
    }
    if (op->is_kernel && fault_at_work()) {
        device_stick(cudaErrorIllegalAddress);
        return true;
    }
    const cudaError_t e = op->run(op->arguments);
    if (e) {
        device_stick(e);
    }
    return true;
}
static bool do_graph(const struct simt_graph *graph) {
    const struct op *op = graph->ops.first;
    while (op && do_work(op)) {
        op = op->next;
    }
    return !op;
}
/* One piece of work; false: nobody can go on. Opens the memory before the first that needs all. */
static bool step(bool *is_open) {
    struct simt_stream *s = pick();
    if (!s) {
        return false;
    }
    const struct op *op = s->ops.first;
    if (!*is_open && (op->is_kernel || op->kind == OP_GRAPH)) {
        memory_open();
        *is_open = true;
    }
    s->is_hung =
        (op->kind == OP_WORK && !do_work(op)) || (op->kind == OP_GRAPH && !do_graph(op->graph));
    if (op->kind == OP_RECORD) {
        op->event->n_done = op->number;
        op->event->done_ns = now_ns();
    }
    if (!s->is_hung) {
        free(op_take(&s->ops));
    }
    return true;
}
static bool event_is_over(const struct simt_event *event) {
    return event->n_done >= event->n_recorded;
}
/* Until this one event, or this one stream, or everything, is over. */
static bool is_over(const struct simt_event *event, const struct simt_stream *only) {
    if (event || only) {
        return event ? event_is_over(event) : !only->ops.first;
    }
    const struct simt_stream *s = streams;
    while (s && !s->ops.first) {
        s = s->next;
    }
    return !s;
}
static bool work_until(const struct simt_event *event, const struct simt_stream *only) {
    bool is_open = false; // changing the memory's protection takes time
    while (!is_over(event, only) && step(&is_open)) {
    }
    if (is_open) {
        memory_close();
    }
    return is_over(event, only);
}
bool stream_drain(cudaStream_t until) {
    return work_until(NULL, until);
}

cudaError_t stream_capture_begin(cudaStream_t stream) {
    if (!stream || stream->is_capturing || capturing) {
        return cudaErrorStreamCaptureUnsupported;
    }
    stream->is_capturing = true;
    capturing = stream;
    return cudaSuccess;
}
cudaError_t stream_capture_end(cudaStream_t stream, struct op_list *out) {
    if (!stream || !stream->is_capturing) {
        return cudaErrorInvalidValue;
    }
    const bool was_broken = stream->is_broken;
    *out = stream->captured;
    stream->captured = (struct op_list){NULL, NULL};
    stream->is_capturing = stream->is_broken = false;
    capturing = NULL;
    if (was_broken) {
        op_list_free(out);
    }
    return was_broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

static cudaError_t wait_for(cudaStream_t stream) {
    if (named(stream)->is_capturing) {
        return break_capture(named(stream));
    }
    return stream_drain(stream ? stream : &unnamed) ? cudaSuccess : cudaErrorLaunchTimeout;
}
static cudaError_t create_stream(cudaStream_t *out) {
    struct simt_stream *s = xcalloc(1, sizeof(*s));
    device_made();
    s->next = unnamed.next;
    unnamed.next = s;
    *out = s;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    const cudaError_t e = device_enter();
    return device_leave(e                               ? e
                        : flags > cudaStreamNonBlocking ? cudaErrorInvalidValue
                                                        : create_stream(out));
}
cudaError_t cudaStreamCreate(cudaStream_t *out) {
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const cudaError_t e = device_enter();
    struct simt_stream *before = &unnamed;
    while (before->next && before->next != stream) {
        before = before->next;
    }
    if (!stream || before->next != stream) {
        return device_leave(cudaErrorInvalidResourceHandle);
    }
    if (!e) {
        (void)stream_drain(stream);
    }
    before->next = stream->next;
    capturing = capturing == stream ? NULL : capturing;
    op_list_free(&stream->ops);
    op_list_free(&stream->captured);
    free(stream);
    return device_leave(e);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const cudaError_t e = device_enter();
    const cudaError_t waited = e ? e : wait_for(stream);
    if (waited || e) {
        return device_leave(waited);
    }
    (void)device_leave(cudaSuccess);
    return device_leave(device_enter()); // what the work ended with
}
cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t e = device_enter();
    e = e ? e : stream_unsafe_call();
    if (!e && !stream_drain(NULL)) {
        e = cudaErrorLaunchTimeout;
    }
    (void)device_leave(e);
    return e ? e : device_leave(device_enter());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    const cudaError_t e = device_enter();
    if (!e) {
        *out = xcalloc(1, sizeof(**out));
        device_made();
        (*out)->is_timed = !(flags & cudaEventDisableTiming);
    }
    return device_leave(e);
}
cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const cudaError_t e = device_enter();
    if (e || stream_drain(NULL)) { // of a device that is stuck or hangs, work may name it still
        for (struct simt_stream *s = e ? streams : NULL; s; s = s->next) {
            op_list_free(&s->ops);
        }
        free(event);
    }
    return device_leave(e);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t e = device_enter();
    if (!e) {
        const struct op op = {.kind = OP_RECORD, .event = event, .number = event->n_recorded + 1};
        e = put_other(named(stream), &op);
        event->n_recorded += !e;
    }
    return device_leave(e);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    const cudaError_t e = device_enter();
    const struct op op = {.kind = OP_WAIT, .event = event, .number = event->n_recorded};
    return device_leave(e ? e : flags ? cudaErrorInvalidValue : put_other(named(stream), &op));
}
/* One question in four finds that nothing has happened. */
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const cudaError_t e = device_enter();
    if (!e && device_random() % 4) {
        (void)work_until(event, NULL);
    }
    const bool is_done = event_is_over(event);
    (void)device_leave(e);
    const cudaError_t after = device_enter(); // the work may have broken the device
    return device_leave(after ? after : is_done ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t e = device_enter();
    e = e ? e : stream_unsafe_call();
    if (!e && !work_until(event, NULL)) {
        e = cudaErrorLaunchTimeout;
    }
    (void)device_leave(e);
    return e ? e : device_leave(device_enter());
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    cudaError_t e = device_enter();
    if (!e && (!begin->is_timed || !end->is_timed || !begin->n_recorded || !end->n_recorded)) {
        e = cudaErrorInvalidResourceHandle;
    }
    if (!e && (begin->n_done < begin->n_recorded || end->n_done < end->n_recorded)) {
        e = cudaErrorNotReady;
    }
    if (!e) {
        *ms = (float)((double)(end->done_ns - begin->done_ns) * 1e-6);
    }
    return device_leave(e);
}
