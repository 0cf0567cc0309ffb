/* nvtx_log.c - a profiler of a few lines, which NVTX loads (NVTX_INJECTION64_PATH): it writes down
 * the ranges of the domain "berth", each a line: "{ name" begins a batch and "}" ends it, "( name"
 * is pushed and ")" popped. For one thread. */
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char text[1 << 16];
static size_t len;
static int domain; // its address is the handle

EXPORT const char *nvtx_log_text(void);
EXPORT const char *nvtx_log_text(void) {
    return text;
}
static void add(const char *mark, const char *name) {
    const int n = snprintf(text + len, sizeof(text) - len, "%s%s\n", mark, name);
    len += n > 0 && (size_t)n < sizeof(text) - len ? (size_t)n : 0;
}

static nvtxDomainHandle_t domain_create(const char *name) {
    return strcmp(name, "berth") ? NULL : (nvtxDomainHandle_t)&domain;
}
static void domain_destroy(nvtxDomainHandle_t d) {
}
static nvtxRangeId_t range_start(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e) {
    add("{ ", e->message.ascii);
    return 7;
}
static void range_end(nvtxDomainHandle_t d, nvtxRangeId_t id) {
    add(id == 7 ? "}" : "} of another", "");
}
static int range_push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *e) {
    add("( ", e->message.ascii);
    return 0;
}
static int range_pop(nvtxDomainHandle_t d) {
    add(")", "");
    return 0;
}

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned n = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &n) ||
        n < NVTX_CBID_CORE2_SIZE) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainDestroy] = (NvtxFunctionPointer)domain_destroy;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)range_start;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)range_end;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}
