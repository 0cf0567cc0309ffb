/* isa.c - which kernels this CPU can run. The levels go from the plainest to the best. The
 * compiler's own test also asks whether the system saves the wide registers; what GCC 11 or clang
 * 14 cannot ask by name is read from cpuid. The tile registers of AMX are more than other state:
 * Linux gives them to a process that asks. */
#include "kernels/cpu/isa.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

extern const struct cpu_isa cpu_isa_baseline;
extern const struct gemm_kernel gemm_int8_baseline;

static bool always(void) {
    return true;
}

#ifdef __x86_64__
extern const struct cpu_isa cpu_isa_avx2, cpu_isa_avx512, cpu_isa_wide;
extern const struct gemm_kernel gemm_int8_avx2, gemm_int8_avxvnni, gemm_int8_avx512,
    gemm_int8_avx512vnni, gemm_int8_amx, gemm_int8_wide, gemm_int8_tiles;
extern const struct gemm_kernel gemm_bfloat16_avx512bf16, gemm_bfloat16_amx, gemm_bfloat16_wide,
    gemm_bfloat16_tiles;
extern const struct cpu_attention attention_bfloat16_avx512bf16, attention_bfloat16_wide;

enum { EAX, EBX, ECX, EDX };
static bool cpuid_bit(unsigned subleaf, int reg, int bit) { // of leaf 7
    unsigned r[4];
    return __get_cpuid_count(7, subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) && (r[reg] >> bit & 1);
}
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avxvnni(void) {
    return has_avx2() && cpuid_bit(1, EAX, 4);
}
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static bool has_avx512vnni(void) {
    return has_avx512() && cpuid_bit(0, ECX, 11);
}
static bool has_avx512bf16(void) {
    return has_avx512vnni() && cpuid_bit(1, EAX, 5);
}
static bool has_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const bool tiles = cpuid_bit(0, EDX, 24);
    return has_avx512bf16() && tiles && cpuid_bit(0, EDX, 22) && cpuid_bit(0, EDX, 25) &&
           !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}
#endif

static const struct cpu_level levels[] = {
    {"baseline", false, false, always, &cpu_isa_baseline, &gemm_int8_baseline, NULL, NULL},
#ifdef __x86_64__
    {"avx2", false, false, has_avx2, &cpu_isa_avx2, &gemm_int8_avx2, NULL, NULL},
    {"avxvnni", false, false, has_avxvnni, &cpu_isa_avx2, &gemm_int8_avxvnni, NULL, NULL},
    {"avx512", false, false, has_avx512, &cpu_isa_avx512, &gemm_int8_avx512, NULL, NULL},
    {"avx512vnni", false, false, has_avx512vnni, &cpu_isa_avx512, &gemm_int8_avx512vnni, NULL,
     NULL},
    {"avx512bf16", false, false, has_avx512bf16, &cpu_isa_avx512, &gemm_int8_avx512vnni,
     &gemm_bfloat16_avx512bf16, &attention_bfloat16_avx512bf16},
    {"amx", true, false, has_amx, &cpu_isa_avx512, &gemm_int8_amx, &gemm_bfloat16_amx,
     &attention_bfloat16_avx512bf16},
    /* 16 wide with VNNI and BF16, and with AMX's tiles, all by AVX2 and plain code. */
    {"wide", false, true, has_avx2, &cpu_isa_wide, &gemm_int8_wide, &gemm_bfloat16_wide,
     &attention_bfloat16_wide},
    {"tiles", true, true, has_avx2, &cpu_isa_wide, &gemm_int8_tiles, &gemm_bfloat16_tiles,
     &attention_bfloat16_wide},
#endif
};

enum status cpu_level_find(const struct cpu_level **out, const char *name, struct error *err) {
    const struct cpu_level *found = NULL;
    char names[128] = "";
    for (size_t i = 0; i < N_ITEMS(levels); i++) {
        const struct cpu_level *l = &levels[i];
        const bool wanted = name ? !strcmp(name, l->name) : !l->by_name_only;
        if ((l->by_name_only && !wanted) || !l->is_supported()) {
            continue;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", l->name);
        found = wanted ? l : found;
    }
    if (!found) {
        return error_set(err, STATUS_INVALID, "cpu isa \"%s\": this machine and build have %s",
                         name, names);
    }
    *out = found;
    return STATUS_OK;
}
