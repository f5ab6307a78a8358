#include "grouped_gemm.h"
#include "chunks.h"
#include "gemm.h"
#include "grouped.h"
#include "scratch.h"
#include "transpose.h"

#include <string.h>

// Sizes of the largest chunk of what an expert makes.
enum { KERN_MC_GROUPED = 256, KERN_NC_GROUPED = 512 };

// Computes rows of some columns that chose an expert.
static void kern_compute_columns(struct ggml_tensor *dst, bool grad_input, struct kern_chunk chunk, const int32_t *columns) {
	const struct ggml_tensor *w = dst->src[0], *x = dst->src[1];
	int64_t m = chunk.m1 - chunk.m0, n = chunk.n1;
	struct ggml_tensor gathered = *x; // of which the expert's matrix multiplies the only one
	gathered.data = kern_gather(x, dst->ne[1], columns, n);
	gathered.nb[2] = 0;
	// oneDNN's BF16 GEMM repacks A, and so the weight tile is B, as in kern_uses_transposed_gemm.
	struct kern_accumulator acc = {.transposed = !grad_input && x->type == GGML_TYPE_BF16};
	acc.c = kern_scratch(KERN_SCRATCH_ACCUMULATOR, m * n * sizeof *acc.c);
	acc.ldc = acc.transposed ? n : m;
	kern_accumulate(w, &gathered, &acc, grad_input, &chunk, false);
	const float *made = acc.c;
	if (acc.transposed) {
		float *back = kern_scratch(KERN_SCRATCH_PRODUCT, m * n * sizeof *back);
		kern_transpose(acc.c, m, n, back, m);
		made = back;
	}
	for (int64_t i = 0; i < n; i++) {
		memcpy((float *)dst->data + columns[i] * dst->ne[0] + chunk.m0, made + i * m, m * sizeof *made);
	}
}

// The threads take chunks of rows of what each expert makes. What a chunk is depends on shapes and ids alone.
static void kern_grouped(struct ggml_tensor *dst, bool grad_input, int nth) {
	const struct ggml_tensor *w = dst->src[0], *ids = dst->src[2];
	int64_t experts = w->ne[2], chunks = kern_ceil_div(dst->ne[0], KERN_MC_GROUPED);
	int32_t *columns = kern_scratch(KERN_SCRATCH_INDICES, ids->ne[0] * ids->ne[1] * sizeof *columns);
	int64_t listed = -1, count = 0;
	for (int64_t i; (i = kern_next_chunk(dst, (experts + 1) * chunks, nth)) >= 0;) {
		struct kern_chunk chunk = {.matrix = i / chunks, .m0 = i % chunks * KERN_MC_GROUPED};
		chunk.m1 = kern_min(dst->ne[0], chunk.m0 + KERN_MC_GROUPED);
		if (chunk.matrix != listed) {
			count = kern_columns_of(ids, listed = chunk.matrix, experts, columns);
		}
		if (chunk.matrix == experts) {
			kern_no_expert(dst, columns, count, chunk.m0, chunk.m1);
			continue;
		}
		for (int64_t n0 = 0; n0 < count; n0 += KERN_NC_GROUPED) {
			chunk.n1 = kern_min(KERN_NC_GROUPED, count - n0);
			kern_compute_columns(dst, grad_input, chunk, columns + n0);
		}
	}
}

KERN_OP(grouped_gemm) {
	(void)ith, (void)userdata;
	kern_grouped(dst, false, nth);
}

KERN_OP(grouped_gemm_grad_input) {
	(void)ith, (void)userdata;
	kern_grouped(dst, true, nth);
}
