// Dot products of quantised rows with AVX512-VNNI. ggml's take so many instructions per block that
// instructions, not memory, limit the speed; these take half as many, and fewer still for each
// further column.
#ifndef KERN_GEMV_VNNI_H
#define KERN_GEMV_VNNI_H

#include <ggml.h>
#include <stddef.h>
#include <stdint.h>

struct kern_vnni {
	// Returns the bytes of a packed column of k elements.
	size_t (*column_size)(int64_t k);
	// Quantises k elements, whole blocks, to 8 bits as ggml does, and packs them for the kernel.
	void (*pack)(const float *x, void *column, int64_t k);
	// Stores the products of m rows, row_size bytes apart, with n packed columns, stride bytes apart, to y [m, n].
	void (*multiply)(float *y, int64_t ldy, int64_t k, int64_t m, const char *rows, size_t row_size, const char *columns, size_t stride, int64_t n);
};

// Returns the kernel of a type for n columns; NULL for other types, and on other processors. A product with one of
// several columns does not depend on the others; from KERN_PANEL_FROM columns on the order of its sum is another.
const struct kern_vnni *kern_vnni_of(enum ggml_type type, int64_t n);
enum { KERN_PANEL_FROM = 8 };

// Kernels that unpack panels of rows.
extern const struct kern_vnni kern_panel_q8_0, kern_panel_q4_0, kern_panel_q4_k, kern_panel_q5_k, kern_panel_q6_k;

#endif
