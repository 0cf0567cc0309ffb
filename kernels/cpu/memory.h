/* memory.h - tensors and workspaces of the CPU backend. */
#ifndef BERTH_KERNELS_CPU_MEMORY_H
#define BERTH_KERNELS_CPU_MEMORY_H
#include <stddef.h>

/* Zeroed, 64-byte aligned; what was never written of a large block is not in memory. NULL: none. */
float *cpu_floats(size_t n);
void cpu_floats_free(float *p); // takes NULL
#endif
