/* device_state.c - one lock, one device's worth of state, and the faults to come.
 * Everything of the simulated device happens under the lock, its kernels too: it is slow anyhow,
 * and what it does is then a function of the seed and of the calls' order. */
#include "kernels/simt/device_state.h"
#include "kernels/simt/faults.h"
#include "kernels/simt/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    long seed, devices, no_driver, memory, launch, sticky, hang;
};
static const struct settings defaults = {.seed = 1, .devices = 1, .memory = 4096};
static struct {
    pthread_mutex_t gate;
    bool is_set;
    struct settings set;
    long n_launches, n_works;
    uint64_t random;
    cudaError_t stuck;
} device = {.gate = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local cudaError_t last;
static atomic_ulong n_made;

unsigned long simt_made(void) {
    return atomic_load(&n_made);
}
void device_made(void) {
    atomic_fetch_add(&n_made, 1);
}

static bool read_word(struct settings *s, const char *word, size_t n) {
    const struct {
        const char *name;
        long *place;
    } known[] = {{"seed=", &s->seed},     {"devices=", &s->devices}, {"memory=", &s->memory},
                 {"launch=", &s->launch}, {"sticky=", &s->sticky},   {"hang=", &s->hang}};
    if (n == 9 && !strncmp(word, "no_driver", n)) {
        s->no_driver = 1;
        return true;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const size_t length = strlen(known[i].name);
        if (n > length && !strncmp(word, known[i].name, length)) {
            char *end = NULL;
            *known[i].place = strtol(word + length, &end, 10);
            return end == word + n && *known[i].place >= 0;
        }
    }
    return n == 0;
}
static bool read_settings(struct settings *out, const char *text) {
    struct settings s = defaults;
    for (const char *word = text; *word;) {
        const size_t n = strcspn(word, ",");
        if (!read_word(&s, word, n)) {
            return false;
        }
        word += n + (word[n] == ',');
    }
    *out = s;
    return true;
}
static void begin(const struct settings *s) {
    device.set = *s;
    device.is_set = true;
    device.n_launches = device.n_works = 0;
    device.random = (uint64_t)s->seed;
    device.stuck = cudaSuccess;
}
bool simt_reset(const char *settings) {
    struct settings s;
    const bool is_known = read_settings(&s, settings);
    pthread_mutex_lock(&device.gate);
    if (is_known) {
        begin(&s);
        last = cudaSuccess;
    }
    pthread_mutex_unlock(&device.gate);
    return is_known;
}
static void set_from_environment(void) {
    const char *text = getenv("BERTH_SIMT");
    struct settings s = defaults;
    if (text && !read_settings(&s, text)) {
        simt_fail("BERTH_SIMT=%s: a word is not known", text);
    }
    begin(&s);
}

cudaError_t device_enter(void) {
    pthread_mutex_lock(&device.gate);
    if (!device.is_set) {
        set_from_environment();
    }
    return device.stuck;
}
cudaError_t device_leave(cudaError_t e) {
    if (e && e != cudaErrorNotReady) {
        last = e;
    }
    pthread_mutex_unlock(&device.gate);
    return e;
}
void device_stick(cudaError_t e) {
    device.stuck = e;
}
uint64_t device_random(void) {
    return simt_random(&device.random);
}

bool fault_at_launch(void) {
    return ++device.n_launches == device.set.launch;
}
bool fault_at_work(void) {
    return ++device.n_works == device.set.sticky;
}
bool fault_hang(void) {
    return device.set.hang && device.n_works + 1 == device.set.hang;
}
bool fault_no_driver(void) {
    return device.set.no_driver;
}
int fault_devices(void) {
    return (int)device.set.devices;
}
size_t fault_memory_bytes(void) {
    return (size_t)device.set.memory << 20;
}

cudaError_t cudaPeekAtLastError(void) {
    const cudaError_t stuck = device_enter();
    pthread_mutex_unlock(&device.gate);
    return stuck ? stuck : last;
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t e = cudaPeekAtLastError();
    last = cudaSuccess;
    return e;
}

static const struct {
    cudaError_t error;
    const char *name, *words;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "an argument is not valid"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "no such grid or block"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "no driver, or one too old"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "there is no such device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "no such object"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not over yet"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal address was touched"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too much for a launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch does not end"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "an address is not aligned"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a launch failed"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not allowed while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "the capture was broken before"},
};
const char *cudaGetErrorName(cudaError_t e) {
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == e) {
            return errors[i].name;
        }
    }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e) {
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == e) {
            return errors[i].words;
        }
    }
    return "unrecognized error code";
}
