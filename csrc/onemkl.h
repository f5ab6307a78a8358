// oneMKL, a library with the CBLAS interface that multiplies halves too.
#ifndef GOGGML_ONEMKL_H
#define GOGGML_ONEMKL_H

#include <stddef.h>
#include <stdint.h>

// A product of matrices in F16, which is added up in F16.
typedef void (*goggml_hgemm)(int order, int trans_a, int trans_b, int m, int n, int k, uint16_t alpha,
	const uint16_t *a, int lda, const uint16_t *b, int ldb, uint16_t beta, uint16_t *c, int ldc);

// Describes the library that is loaded if it is oneMKL, and turns its threads off. Returns its product of halves, or
// NULL where the processor has no instructions for it.
goggml_hgemm goggml_onemkl_open(void *library, char *text, size_t size);

#endif
