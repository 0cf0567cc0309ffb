/* isa_table.c - the fp32 kernels of one vector width as a table; compiled like what it lists. */
#include "kernels/cpu/isa.h"

extern const struct cpu_isa ISA(cpu_isa);
extern const struct gemm_kernel ISA(gemm_float32);
const struct cpu_isa ISA(cpu_isa) = {
    .gemm = &ISA(gemm_float32),
    .attend_floats = ISA(attend_floats),
    .attend = ISA(attend),
    .embed = ISA(embed),
    .layernorm = ISA(layernorm),
    .mean = ISA(mean),
};
