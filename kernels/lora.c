#include "lora.h"
#include "library.h"
#include "low_rank.h"

#include <string.h>

// Below this number of columns a GEMM call costs more than it computes, and AXPY is used: the
// columns of B are scaled and added.
enum { KERN_FEW_COLUMNS = 8 };

// Adds rows [m0, m1) of B·H to Y, which starts at the pair's first row.
static void kern_add_rows(const struct ggml_tensor *dst, float *y, const struct ggml_tensor *b, const struct ggml_tensor *h,
		enum ggml_type h_type, int64_t m0, int64_t m1) {
	int64_t n = dst->ne[1], ldy = dst->nb[1] / sizeof *y;
	if (n >= KERN_FEW_COLUMNS && kern_library_name()[0] != '\0' && !kern_is_sparse(h)) {
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
	int64_t panels = 0;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		panels += kern_ceil_div(dst->src[i]->ne[0], KERN_PANEL);
	}
	// Consecutive panels, as in the GEMM or GEMV that made Y: Y is in the caches of these threads.
	int64_t from = panels * ith / nth, to = panels * (ith + 1) / nth;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t m0 = kern_max(from, 0) * KERN_PANEL, m1 = kern_min(to * KERN_PANEL, b->ne[0]);
		if (m0 < m1) {
			kern_add_rows(dst, y, b, dst->src[i + 1], p.h_type, m0, m1);
		}
		panels = kern_ceil_div(b->ne[0], KERN_PANEL);
		from -= panels;
		to -= panels;
		y += b->ne[0];
	}
}
