/* range.c - ranges by NVTX 3, whose header is all there is to it: what it calls is put in by a
 * profiler, and nothing where there is none. A domain is then NULL, so names are not even made. */
#include "kernels/cuda/range.h"

#include "base/status.h"

#if BERTH_NVTX
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

enum { NAME_BYTES = 64 };

static nvtxEventAttributes_t named(const char *name) {
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message = {.ascii = name}};
}
void *range_domain_create(void) {
    return nvtxDomainCreateA("berth");
}
void range_domain_destroy(void *domain) {
    if (domain) {
        nvtxDomainDestroy(domain);
    }
}
uint64_t range_batch_begin(void *domain, int rows, int seqs) {
    char name[NAME_BYTES];
    if (!domain) {
        return 0;
    }
    snprintf(name, sizeof(name), "batch of %d rows, %d sequences", rows, seqs);
    const nvtxEventAttributes_t event = named(name);
    return nvtxDomainRangeStartEx(domain, &event);
}
void range_batch_end(void *domain, uint64_t range) {
    if (domain) {
        nvtxDomainRangeEnd(domain, range);
    }
}
void range_push(void *domain, const char *name) {
    if (domain) {
        const nvtxEventAttributes_t event = named(name);
        (void)nvtxDomainRangePushEx(domain, &event);
    }
}
void range_pop(void *domain) {
    if (domain) {
        (void)nvtxDomainRangePop(domain);
    }
}
int range_layer(void *domain, int now, int layer, int n_layers) {
    char name[NAME_BYTES];
    if (!domain || layer == now) {
        return now;
    }
    range_layers_end(domain, now);
    snprintf(name, sizeof(name), layer < n_layers ? "layer %d" : "no layer", layer);
    range_push(domain, name);
    return layer;
}
void range_layers_end(void *domain, int now) {
    if (domain && now != RANGE_NO_LAYER) {
        range_pop(domain);
    }
}
#else
void *range_domain_create(void) {
    return NULL;
}
void range_domain_destroy(void *domain) {
}
uint64_t range_batch_begin(void *domain, int rows, int seqs) {
    return 0;
}
void range_batch_end(void *domain, uint64_t range) {
}
void range_push(void *domain, const char *name) {
}
void range_pop(void *domain) {
}
int range_layer(void *domain, int now, int layer, int n_layers) {
    return now;
}
void range_layers_end(void *domain, int now) {
}
#endif
