/* isa_table.c - one ISA's kernels as a table; compiled once an ISA, like what it lists. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec.h"

#define QUOTE_(x) #x
#define QUOTE(x) QUOTE_(x)

extern const struct cpu_isa ISA(cpu_isa);
const struct cpu_isa ISA(cpu_isa) = {
    .name = QUOTE(CPU_ISA),
    .nr = NR,
    .pack_rows = ISA(pack_rows),
    .gemm = ISA(gemm),
    .attend_floats = ISA(attend_floats),
    .attend = ISA(attend),
    .embed = ISA(embed),
    .layernorm = ISA(layernorm),
    .mean = ISA(mean),
};
