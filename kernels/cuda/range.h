/* range.h - what the host is at, named for a profiler (NVTX): each batch from begin to end, copies,
 * the launches of each layer, a graph's. Without a profiler there is no domain, and every call
 * here is one comparison; a build that has no nvtx3/nvToolsExt.h never has one.
 * Threads: push and pop on the thread of a pass, in pairs; a batch may end on another than it began
 * on, and batches of two slots overlap. */
#ifndef BERTH_KERNELS_CUDA_RANGE_H
#define BERTH_KERNELS_CUDA_RANGE_H
#include <stdint.h>

void *range_domain_create(void); // NULL: nobody listens
void range_domain_destroy(void *domain);
uint64_t range_batch_begin(void *domain, int rows, int seqs);
void range_batch_end(void *domain, uint64_t range);
void range_push(void *domain, const char *name);
void range_pop(void *domain);

/* Layers one after the other: `now` is the latest that was pushed, RANGE_NO_LAYER before the first;
 * gives the one that is pushed then. Layer n_layers: what is of none. */
enum { RANGE_NO_LAYER = -1 };
int range_layer(void *domain, int now, int layer, int n_layers);
void range_layers_end(void *domain, int now);
#endif
