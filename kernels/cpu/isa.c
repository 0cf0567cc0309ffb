/* isa.c - which kernels this CPU can run. The list goes from the plainest to the best. The
 * compiler's own test also asks whether the system saves the wide registers. */
#include "kernels/cpu/isa.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

extern const struct cpu_isa cpu_isa_baseline;
#ifdef __x86_64__
extern const struct cpu_isa cpu_isa_avx2;
#endif

static bool is_supported(const struct cpu_isa *isa) {
#ifdef __x86_64__
    if (isa == &cpu_isa_avx2) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
#endif
    return isa == &cpu_isa_baseline;
}

enum status cpu_isa_find(const struct cpu_isa **out, const char *name, struct error *err) {
    static const struct cpu_isa *const all[] = {
        &cpu_isa_baseline,
#ifdef __x86_64__
        &cpu_isa_avx2,
#endif
    };
    const struct cpu_isa *found = NULL;
    char names[128] = "";
    for (size_t i = 0; i < N_ITEMS(all); i++) {
        if (is_supported(all[i])) {
            const size_t used = strlen(names);
            snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", all[i]->name);
            found = !name || !strcmp(name, all[i]->name) ? all[i] : found;
        }
    }
    if (!found) {
        return error_set(err, STATUS_INVALID, "cpu isa \"%s\": this machine and build have %s",
                         name, names);
    }
    *out = found;
    return STATUS_OK;
}
