// Products of rows with a few columns, for each type and kind of processor.
#ifndef KERN_GEMV_KERNEL_H
#define KERN_GEMV_KERNEL_H

#include <ggml.h>
#include <stddef.h>
#include <stdint.h>

struct kern_gemv_kernel {
	// Returns the bytes of a packed column of k elements.
	size_t (*column_size)(int64_t k);
	// Rounds k elements, whole blocks, as ggml does, and packs them for the kernel.
	void (*pack)(const float *x, void *column, int64_t k);
	// Stores the products of m rows, row_size bytes apart, with n packed columns, stride bytes apart, to y [m, n].
	void (*multiply)(float *y, int64_t ldy, int64_t k, int64_t m, const char *rows, size_t row_size, const char *columns, size_t stride, int64_t n);
};

#endif
