/* faults.h - faults that are planted in the simulated device: by the environment variable
 * BERTH_SIMT, or by tests. Words, separated by commas; N counts from 1:
 *   seed=N           of the order of streams, blocks and threads (1)
 *   devices=N        how many there are (1)     no_driver    as on a machine without one
 *   memory=N         MiB of each device (4096)
 *   launch=N         launch N is refused (cudaErrorLaunchOutOfResources)
 *   sticky=N         launch N touches an illegal address: no call works after it
 *   hang=N           launch N never ends */
#ifndef BERTH_KERNELS_SIMT_FAULTS_H
#define BERTH_KERNELS_SIMT_FAULTS_H
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif
/* Begins anew with these settings, nothing else set; the device works again. What was made before
 * must have been destroyed. False: a word is not known, nothing has changed. */
bool simt_reset(const char *settings);
/* What was ever made on the device or for it: memory, pinned or not, streams, events, captures and
 * graphs, descriptors of products. A server that is ready makes nothing more. */
__attribute__((visibility("default"))) unsigned long simt_made(void);
#ifdef __cplusplus
}
#endif
#endif
