// Micro-kernels of the GEMM in 8-bit integers, one for each instruction set. Files are named as in BLIS: the
// instructions, the type, and the rows and columns that stay in registers.
#ifndef KERN_GEMM_UKR_I8_H
#define KERN_GEMM_UKR_I8_H

#include "pack_i8.h"

// Adds the product of two packed blocks of quads · KERN_QUAD depths to C [KERN_MR, KERN_NR], or stores it there.
typedef void (*kern_ukr_i8)(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate);

void kern_gemm_avx512vnni_i8_32x12(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate);
void kern_gemm_avx2_i8_16x4(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate);
void kern_gemm_avxvnni_i8_16x6(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate);

#endif
