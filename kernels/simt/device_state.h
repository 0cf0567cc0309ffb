/* device_state.h - the simulated device behind cudart.h, as its files share it. */
#ifndef BERTH_KERNELS_SIMT_DEVICE_STATE_H
#define BERTH_KERNELS_SIMT_DEVICE_STATE_H
#include "kernels/simt/cudart.h"
#include <stdbool.h>
#include <stdint.h>

enum op_kind { OP_WORK, OP_RECORD, OP_WAIT, OP_GRAPH };
typedef cudaError_t op_fn(const void *arguments);
struct op {
    struct op *next;
    enum op_kind kind;
    bool is_kernel;
    op_fn *run;               // of OP_WORK; gets `arguments`
    struct simt_event *event; // of OP_RECORD and OP_WAIT
    int64_t number;           // the record's
    struct simt_graph *graph; // of OP_GRAPH
    size_t bytes;
    _Alignas(16) char arguments[]; // [bytes]
};
struct op_list {
    struct op *first, *last;
};
struct simt_graph {
    struct op_list ops;
};

/* Every call of cudart.h is between these two. enter() reads the settings at the first call, and
 * gives the error that the device is stuck with. */
cudaError_t device_enter(void);
cudaError_t device_leave(cudaError_t e); // gives `e` back, kept for cudaGetLastError()
void device_stick(cudaError_t e);        // no call works any more
uint64_t device_random(void);
void device_made(void); // counts for simt_made()

/* Faults to come (faults.h): true for the piece of work that is to have it. */
bool fault_at_launch(void); // the launch is refused
bool fault_at_work(void);   // its work ends with an illegal address
bool fault_hang(void);      // its work never ends
bool fault_no_driver(void);
int fault_devices(void);
size_t fault_memory_bytes(void);

/* stream.c. Refuses what a capture does not allow, and breaks it. */
cudaError_t stream_put(cudaStream_t stream, op_fn *run, const void *arguments, size_t bytes,
                       bool is_kernel);
void op_append(struct op_list *list, struct op *op);
struct op *op_copy(const struct op *op);
void op_list_free(struct op_list *list);
cudaError_t stream_put_graph(cudaStream_t stream, struct simt_graph *graph);
cudaError_t stream_capture_begin(cudaStream_t stream);
cudaError_t stream_capture_end(cudaStream_t stream, struct op_list *out);
/* A call that waits, frees or allocates: refused while this thread's stream is captured. */
cudaError_t stream_unsafe_call(void);
/* Works until nothing is left, or nothing can go on. False: something hangs. */
bool stream_drain(cudaStream_t until); // NULL: all
#endif
