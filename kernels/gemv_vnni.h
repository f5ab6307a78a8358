// Dot products of quantised rows with AVX512-VNNI. ggml's take so many instructions per block that
// instructions, not memory, limit the speed; these take half as many, and fewer still for each
// further column.
#ifndef KERN_GEMV_VNNI_H
#define KERN_GEMV_VNNI_H

#include <ggml.h>
#include <stddef.h>
#include <stdint.h>

struct kern_vnni {
	// Returns the bytes of a packed column of k elements. All parts of a column except the last
	// have a multiple of 256 elements.
	size_t (*column_size)(int64_t k);
	// Quantises k elements, whole blocks, to 8 bits as ggml does, and packs them for the kernel.
	void (*pack)(const float *x, void *column, int64_t k);
	// Adds the products of a row with n packed columns, stride bytes apart, to y[0], y[ldy], …
	void (*accumulate)(float *y, int64_t ldy, int64_t k, const void *row, const char *columns, size_t stride, int64_t n);
};

// Returns the kernel of a type; NULL for other types, and on other processors.
const struct kern_vnni *kern_vnni_of(enum ggml_type type);

#endif
