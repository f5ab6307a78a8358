#include "lora.h"
#include "library.h"
#include "low_rank.h"

#include <string.h>

// Rows of Y that are computed at a time: their part of B stays in the cache. The number of threads does not matter, or
// the GEMM library's sums would differ in the last bit.
enum { KERN_LORA_BLOCK = 256 };

// AXPY below so many columns, where a GEMM call costs more than it computes: the columns of B are scaled and added, and
// threads divide the rows of Y finer.
enum { KERN_FEW_COLUMNS = 8 };

// Adds rows [m0, m1) of B·H to Y, which starts at the pair's first row.
static void kern_add_rows(const struct ggml_tensor *dst, float *y, const struct ggml_tensor *b, const struct ggml_tensor *h,
		enum ggml_type h_type, int64_t m0, int64_t m1) {
	int64_t n = dst->ne[1], ldy = dst->nb[1] / sizeof *y;
	if (n >= KERN_FEW_COLUMNS && kern_library_name()[0] != '\0') {
		struct kern_accumulator acc = {.c = y + m0, .ldc = ldy};
		kern_accumulate_low_rank(b, h, h_type, &acc, m0, m1, 0, n);
	} else {
		kern_add_panels(b, h, h_type, y, ldy, m0, m1);
	}
}

KERN_OP(lora_update) {
	(void)userdata;
	struct kern_lora_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	float *y = (float *)dst->data + p.first;
	int64_t unit = dst->ne[1] < KERN_FEW_COLUMNS ? KERN_PANEL : KERN_LORA_BLOCK, units = 0;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		units += kern_ceil_div(dst->src[i]->ne[0], unit);
	}
	// Neighbours, as in the GEMM or GEMV that made Y: it is in the caches of its threads.
	int64_t from = units * ith / nth, to = units * (ith + 1) / nth;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t end = kern_min(b->ne[0], to * unit);
		for (int64_t m0 = kern_max(from, 0) * unit; m0 < end; m0 += KERN_LORA_BLOCK) {
			kern_add_rows(dst, y, b, dst->src[i + 1], p.h_type, m0, kern_min(m0 + KERN_LORA_BLOCK, end));
		}
		units = kern_ceil_div(b->ne[0], unit);
		from -= units;
		to -= units;
		y += b->ne[0];
	}
}
