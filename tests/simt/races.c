/* races.c - races in kernels, for the thread sanitizer, which ends the program at the first.
 *   test_races none|barrier|wait */
#include "kernels/simt/cudart.h"
#include "tests/simt/kernels.h"
#include <assert.h>
#include <string.h>

int main(int argc, char **argv) {
    void *in = NULL, *out = NULL;
    assert(argc == 2);
    const int with_barrier = strcmp(argv[1], "barrier") != 0;
    assert(cudaMalloc(&in, 4096) == cudaSuccess && cudaMalloc(&out, 4096) == cudaSuccess);
    assert(cudaMemset(in, 0, 4096) == cudaSuccess);
    assert(launch_reverse(NULL, out, in, with_barrier) == cudaSuccess);
    assert(launch_warp_sum(NULL, out, in) == cudaSuccess);
    const int plant = strcmp(argv[1], "wait") ? PLANT_NOTHING : PLANT_NO_WAIT;
    assert(launch_tile(NULL, out, in, in, plant) == cudaSuccess);
    assert(cudaDeviceSynchronize() == cudaSuccess);
    return 0;
}
