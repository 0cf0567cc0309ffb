/* isa_table.c - the fp32 kernels of one vector width as a table; compiled like what it lists. */
#include "kernels/cpu/isa.h"

#define TEXT_OF_(word) #word
#define TEXT_OF(word) TEXT_OF_(word)

extern const struct cpu_isa ISA(cpu_isa);
extern const struct gemm_kernel ISA(gemm_float32);
extern const struct cpu_passes ISA(cpu_passes);
extern const struct cpu_attention ISA(attention_float32);
const struct cpu_isa ISA(cpu_isa) = {
    .name = TEXT_OF(CPU_ISA),
    .gemm = &ISA(gemm_float32),
    .attention = &ISA(attention_float32),
    .embed = ISA(embed),
    .layernorm = ISA(layernorm),
    .mean = ISA(mean),
    .passes = &ISA(cpu_passes),
};
