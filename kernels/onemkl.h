// oneMKL, a library with the CBLAS interface that also multiplies F16.
#ifndef KERN_ONEMKL_H
#define KERN_ONEMKL_H

#include <stddef.h>
#include <stdint.h>

// A GEMM in F16, with sums in F16.
typedef void (*kern_hgemm)(int order, int trans_a, int trans_b, int m, int n, int k, uint16_t alpha,
	const uint16_t *a, int lda, const uint16_t *b, int ldb, uint16_t beta, uint16_t *c, int ldc);

// If the loaded GEMM library is oneMKL, describes it and turns its threads off. Returns its GEMM in
// F16, or NULL if the processor has no instructions for it.
kern_hgemm kern_onemkl_open(void *library, char *text, size_t size);

#endif
