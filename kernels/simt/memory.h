/* memory.h - device memory and pinned memory. The device's lock is held by the caller. */
#ifndef BERTH_KERNELS_SIMT_MEMORY_H
#define BERTH_KERNELS_SIMT_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED };
/* NULL: no memory. Aligned to 256 bytes; filled with NaNs. */
void *memory_take(enum memory_kind kind, size_t bytes);
bool memory_give(enum memory_kind kind, void *data); // false: there is no such block
/* All of it lies in one block of device memory. */
bool memory_has(const void *data, size_t bytes);
bool memory_is_pinned(const void *data, size_t bytes);
size_t memory_in_use(void); // of the device's
/* Between open and close device memory can be touched. They nest. */
void memory_open(void);
void memory_close(void);
/* The same for the one block where `data` lies: what a copy needs. Other memory: nothing. */
void memory_allow(const void *data, bool yes);
/* The first block past whose end something was written, NULL: none; open only. */
const void *memory_overrun(size_t *bytes);
#endif
