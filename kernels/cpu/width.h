/* width.h - how wide the per-ISA sources are compiled: by the instructions that they may use. */
#ifndef BERTH_KERNELS_CPU_WIDTH_H
#define BERTH_KERNELS_CPU_WIDTH_H

/* CPU_EMULATE is for tests: 16 wide for a machine that is 8 wide, and instructions that it has not
 * as plain C, so that what is written for others can be run here. */
#if defined(__AVX512F__) || defined(CPU_EMULATE)
#define VEC 16
#elif defined(__AVX2__) && defined(__FMA__)
#define VEC 8
#else
#define VEC 4
#endif
#define NR (2 * VEC) // columns of a tile
#ifndef MR           // rows of a tile: with its 2 * MR sums, W and x it must fit the registers
#if VEC == 16
#define MR 14 // of 32
#else
#define MR 6 // of 16
#endif
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PRAGMA(x) _Pragma(#x)
#ifdef CPU_EMULATE
#define UNROLL(n) // an emulated vector is many instructions: compilers would take minutes
#elif defined(__clang__)
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif
#endif
