// The GEMM library, found at run time: oneDNN, or one with the CBLAS interface such as OpenBLAS,
// BLIS, oneMKL and Accelerate. Building needs none.
#ifndef KERN_LIBRARY_H
#define KERN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A call of BLAS's GEMM in column-major order: C [m, n] = A · B, or C += A · B with accumulate. A is stored as [m, k], or
// as [k, m] with trans_a; B as [k, n], or as [n, k] with trans_b. A and B are F32, or both BF16; C is F32.
struct kern_gemm {
	bool bf16, trans_a, trans_b, accumulate;
	int64_t m, n, k, lda, ldb, ldc;
};

// Loads the best installed GEMM library; returns false if there is none.
bool kern_library_find(void);
// Loads the GEMM library in a file. On failure error contains the reason.
bool kern_library_load(const char *path, char *error, size_t size);
// Describes the GEMM library in use; "" if there is none.
const char *kern_library_name(void);

// Reports whether the library multiplies BF16 by special instructions.
bool kern_library_bf16(void);
// Reports whether BF16 is faster than F32.
bool kern_library_fast_bf16(void);
// Reports whether the library uses AMX for BF16: it has the system's permission, and the environment allows it.
bool kern_library_amx(void);
// Reports whether the library multiplies and accumulates F16 by special instructions.
bool kern_library_f16(void);

// Both compute on the calling thread alone. A library must be loaded and support the type.
void kern_library_gemm(const struct kern_gemm *g, const void *a, const void *b, float *c);
// A, B, C and the sums are F16.
void kern_library_gemm_f16(const struct kern_gemm *g, const uint16_t *a, const uint16_t *b, uint16_t *c);

#endif
