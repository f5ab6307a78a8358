#include "lora.h"
#include "axpy.h"
#include "gemm.h"
#include "library.h"

#include <string.h>

// Rows of Y that are computed at a time: their part of B stays in the cache. The number of threads does not matter, or
// the GEMM library's sums would differ in the last bit.
enum { KERN_LORA_BLOCK = 256 };

// AXPY below so many columns, where a GEMM call costs more than it computes: the columns of B are scaled and added, and
// threads divide the rows of Y finer.
enum { KERN_FEW_COLUMNS = 8, KERN_LORA_STEP = 64 };

// Adds rows [m0, m0+m) of B·H to Y, which starts at the pair's first row.
static void kern_add_rows(const struct ggml_tensor *dst, float *y, const struct ggml_tensor *b, const struct ggml_tensor *h,
		enum ggml_type h_type, int64_t m0, int64_t m) {
	int64_t n = dst->ne[1], ld, ldh;
	y += m0;
	if (n >= KERN_FEW_COLUMNS && kern_library_name()[0] != '\0') {
		struct kern_accumulator acc = {.c = y, .ldc = dst->nb[1] / sizeof *y};
		kern_accumulate_low_rank(b, h, h_type, &acc, m0, m0 + m, 0, n);
		return;
	}
	enum ggml_type type = kern_axpy_takes(b->type) ? b->type : GGML_TYPE_F32;
	const void *columns = kern_weight_tile(b, 0, type, m0, m0 + m, 0, b->ne[1], &ld);
	const float *factors = kern_round_columns(h, h_type, 0, n, &ldh);
	for (int64_t i = 0; i < n; i++, factors += ldh) {
		kern_axpy_rows((float *)((char *)y + i * dst->nb[1]), type, columns, ld * ggml_type_size(type), factors, b->ne[1], m);
	}
}

KERN_OP(lora_update) {
	(void)userdata;
	struct kern_lora_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	float *y = (float *)dst->data + p.first;
	int64_t unit = dst->ne[1] < KERN_FEW_COLUMNS ? KERN_LORA_STEP : KERN_LORA_BLOCK, units = 0;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		units += kern_ceil_div(dst->src[i]->ne[0], unit);
	}
	// Neighbours, as in the GEMM or GEMV that made Y: it is in the caches of its threads.
	int64_t from = units * ith / nth, to = units * (ith + 1) / nth;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t end = kern_min(b->ne[0], to * unit);
		for (int64_t m0 = kern_max(from, 0) * unit; m0 < end; m0 += KERN_LORA_BLOCK) {
			kern_add_rows(dst, y, b, dst->src[i + 1], p.h_type, m0, kern_min(KERN_LORA_BLOCK, end - m0));
		}
		units = kern_ceil_div(b->ne[0], unit);
		from -= units;
		to -= units;
		y += b->ne[0];
	}
}
