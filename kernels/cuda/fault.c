/* fault.c - what the device says, and when it is given up.
 * An error of a call that was refused concerns that call. Any other comes from work that ran: CUDA
 * keeps it, every later call gives it again, and nothing but the end of the process frees the
 * device; so the backend is lost from there on and answers without asking the device. A pass that
 * does not end in time is the same: nothing stops a kernel. */
#include "base/timing.h"
#include "kernels/cuda/internal.h"

#include <time.h>

static bool is_refusal(cudaError_t e) {
    switch (e) {
    case cudaErrorInvalidValue:
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated: return true;
    default: return false;
    }
}

enum status cuda_check(struct cuda_backend *cuda, cudaError_t e, const char *what,
                       struct error *err) {
    if (e == cudaSuccess) {
        return STATUS_OK;
    }
    const enum status s =
        error_set(err, e == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_BACKEND,
                  "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
    if (is_refusal(e)) {
        (void)cudaGetLastError(); // or the next launch would report it again
    } else if (!cuda->base.is_lost) {
        cuda->base.is_lost = true;
        (void)error_set(&cuda->lost, STATUS_BACKEND, "the device was lost: %s: %s (%s)", what,
                        cudaGetErrorString(e), cudaGetErrorName(e));
    }
    return s;
}

/* A pass of a small batch takes some hundred microseconds: the first are spent asking. */
static void pause_for(int64_t waited_ns) {
    if (waited_ns > NS_PER_MS / 5) {
        const struct timespec t = {.tv_nsec = NS_PER_MS / 50};
        nanosleep(&t, NULL);
    }
}

enum status cuda_wait(struct cuda_backend *cuda, cudaEvent_t event, bool wait, bool *is_over,
                      struct error *err) {
    const int64_t start_ns = time_now_ns();
    for (;;) {
        const cudaError_t e = cudaEventQuery(event);
        const int64_t waited_ns = time_now_ns() - start_ns;
        *is_over = e != cudaErrorNotReady;
        if (*is_over) {
            return cuda_check(cuda, e, "a pass", err);
        }
        if (!wait) {
            return STATUS_OK;
        }
        if (waited_ns > cuda->opt.pass_timeout_ns) {
            *is_over = cuda->base.is_lost = cuda->base.is_hung = true;
            (void)error_set(&cuda->lost, STATUS_BACKEND,
                            "the device was lost: a pass did not end within %lld ms",
                            (long long)(cuda->opt.pass_timeout_ns / NS_PER_MS));
            *err = cuda->lost;
            return STATUS_BACKEND;
        }
        pause_for(waited_ns);
    }
}
