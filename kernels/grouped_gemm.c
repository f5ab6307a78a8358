#include "grouped_gemm.h"
#include "chunks.h"
#include "gemm.h"
#include "gemm_int.h"
#include "grouped.h"
#include "library.h"
#include "transpose.h"

#include <string.h>

// Sizes of the largest chunk of an expert's result, and of the gradient of its matrix; number of
// rows per gathering of columns.
enum { KERN_MC_GROUPED = 256, KERN_NC_GROUPED = 512, KERN_ROWS_GROUPED = 1024 };

// How an op multiplies: least is the number of an expert's columns from which on it uses integers, 0 for never.
struct kern_grouping {
	bool grad_input, i8;
	int64_t least;
};

// Writes rows of a product [m, count], m0 the first, to their columns.
static void kern_scatter(struct ggml_tensor *dst, const float *made, int64_t m0, int64_t m, const int32_t *columns, int64_t count) {
	for (int64_t i = 0; i < count; i++) {
		memcpy((float *)dst->data + columns[i] * dst->ne[0] + m0, made + i * m, m * sizeof *made);
	}
}

// Computes rows of gathered columns.
static void kern_compute_rows(struct ggml_tensor *dst, bool grad_input, const struct kern_chunk *chunk,
		const struct ggml_tensor *gathered, const int32_t *columns, int64_t count) {
	int64_t m = chunk->m1 - chunk->m0, n = chunk->n1;
	// oneDNN's BF16 GEMM repacks A, so the weight tile is passed as B, as in
	// kern_uses_transposed_gemm.
	struct kern_accumulator acc = {.transposed = !grad_input && gathered->type == GGML_TYPE_BF16};
	acc.c = kern_scratch(KERN_SCRATCH_ACCUMULATOR, m * n * sizeof *acc.c);
	acc.ldc = acc.transposed ? n : m;
	kern_accumulate(dst->src[0], gathered, &acc, grad_input, chunk, false);
	const float *made = acc.c;
	if (acc.transposed) {
		float *back = kern_scratch(KERN_SCRATCH_PRODUCT, m * n * sizeof *back);
		kern_transpose(acc.c, m, n, back, m);
		made = back;
	}
	kern_scatter(dst, made, chunk->m0, m, columns, count);
}

// Computes rows of gathered columns in integers.
static void kern_compute_rows_int(struct ggml_tensor *dst, struct kern_grouping of, const struct kern_chunk *rows,
		const struct ggml_tensor *gathered, const int32_t *columns, int64_t count) {
	void *packed = kern_scratch(KERN_SCRATCH_PACKED, kern_packed_bytes(gathered->ne[0], count, of.i8));
	kern_pack_columns(gathered, 0, 0, count, of.i8, packed);
	struct kern_product_int p = {.grad_input = of.grad_input, .i8 = of.i8, .w = dst->src[0], .w_matrix = rows->matrix, .x = gathered, .packed = packed, .n1 = count};
	for (p.m0 = rows->m0; p.m0 < rows->m1; p.m0 = p.m1) {
		p.m1 = kern_min(rows->m1, p.m0 + KERN_MC_GROUPED);
		p.ldc = p.m1 - p.m0;
		p.c = kern_scratch(KERN_SCRATCH_ACCUMULATOR, p.ldc * count * sizeof *p.c);
		kern_multiply_int(&p);
		kern_scatter(dst, p.c, p.m0, p.ldc, columns, count);
	}
}

// Computes rows of some columns of an expert.
static void kern_compute_columns(struct ggml_tensor *dst, struct kern_grouping of, const struct kern_chunk *rows, const int32_t *columns, int64_t count) {
	const struct ggml_tensor *x = dst->src[1];
	bool grad_input = of.grad_input, integers = of.least > 0 && count >= of.least;
	struct kern_chunk chunk = {.matrix = rows->matrix, .n1 = integers ? count : kern_padded(x, count)};
	struct ggml_tensor gathered = *x; // a single matrix, whatever the expert's index
	gathered.data = kern_gather(x, dst->ne[1], columns, count, chunk.n1, 0, x->ne[0], KERN_SCRATCH_COLUMNS);
	gathered.nb[2] = 0;
	if (integers) {
		kern_compute_rows_int(dst, of, rows, &gathered, columns, count);
		return;
	}
	for (chunk.m0 = rows->m0; chunk.m0 < rows->m1; chunk.m0 = chunk.m1) {
		chunk.m1 = kern_min(rows->m1, chunk.m0 + KERN_MC_GROUPED);
		kern_compute_rows(dst, grad_input, &chunk, &gathered, columns, count);
	}
}

// The threads take chunks of rows of each expert's result. Chunks depend only on shapes and ids.
static void kern_grouped(struct ggml_tensor *dst, struct kern_grouping of, int nth) {
	int64_t experts = dst->src[0]->ne[2], chunks = kern_ceil_div(dst->ne[0], KERN_ROWS_GROUPED);
	struct kern_groups groups = kern_group(dst->src[2], experts);
	for (int64_t i; (i = kern_next_chunk(dst, (experts + 1) * chunks, nth)) >= 0;) {
		struct kern_chunk rows = {.matrix = i / chunks, .m0 = i % chunks * KERN_ROWS_GROUPED};
		rows.m1 = kern_min(dst->ne[0], rows.m0 + KERN_ROWS_GROUPED);
		int64_t n0 = groups.first[rows.matrix], end = groups.first[rows.matrix + 1];
		if (rows.matrix == experts) {
			kern_no_expert(dst, groups.columns + n0, end - n0, rows.m0, rows.m1);
			continue;
		}
		for (; n0 < end; n0 += KERN_NC_GROUPED) {
			kern_compute_columns(dst, of, &rows, groups.columns + n0, kern_min(KERN_NC_GROUPED, end - n0));
		}
	}
}

KERN_OP(grouped_gemm) {
	(void)ith, (void)userdata;
	kern_grouped(dst, (struct kern_grouping){.grad_input = false}, nth);
}

KERN_OP(grouped_gemm_grad_input) {
	(void)ith, (void)userdata;
	kern_grouped(dst, (struct kern_grouping){.grad_input = true}, nth);
}

static int64_t kern_least(const struct ggml_tensor *dst) { return ((const struct kern_grouped_int_params *)kern_params(dst))->least; }

KERN_OP(grouped_gemm_int) {
	(void)ith, (void)userdata;
	kern_grouped(dst, (struct kern_grouping){.grad_input = false, .least = kern_least(dst)}, nth);
}

KERN_OP(grouped_gemm_grad_input_int) {
	(void)ith, (void)userdata;
	kern_grouped(dst, (struct kern_grouping){.grad_input = true, .least = kern_least(dst)}, nth);
}

KERN_OP(grouped_gemm_grad_input_i8) {
	(void)ith, (void)userdata;
	kern_grouped(dst, (struct kern_grouping){.grad_input = true, .i8 = true, .least = kern_least(dst)}, nth);
}

// dW [k, m, experts] += X·dYᵀ for the columns of each expert. The threads take chunks of its
// gradient.
KERN_OP(accumulate_grouped_grad_weight) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *x = dst->src[1], *dy = dst->src[2], *ids = dst->src[3];
	int64_t k = dst->ne[0], m = dst->ne[1], experts = dst->ne[2], used = ids->ne[0];
	int64_t k_chunks = kern_ceil_div(k, KERN_MC_GROUPED), chunks = k_chunks * kern_ceil_div(m, KERN_NC_GROUPED);
	struct kern_groups groups = kern_group(ids, experts);
	for (int64_t i; (i = kern_next_chunk(dst, experts * chunks, nth)) >= 0;) {
		int64_t expert = i / chunks, m0 = i % chunks / k_chunks * KERN_NC_GROUPED, k0 = i % k_chunks * KERN_MC_GROUPED;
		int64_t m1 = kern_min(m, m0 + KERN_NC_GROUPED), k1 = kern_min(k, k0 + KERN_MC_GROUPED);
		float *dw = (float *)kern_matrix(dst, expert) + m0 * k + k0;
		for (int64_t n0 = groups.first[expert], n1; n0 < groups.first[expert + 1]; n0 = n1) {
			n1 = kern_min(groups.first[expert + 1], n0 + KERN_NC_GROUPED);
			const int32_t *columns = groups.columns + n0;
			int64_t n = kern_padded(x, n1 - n0);
			const void *a = kern_gather(x, used, columns, n1 - n0, n, k0, k1, KERN_SCRATCH_COLUMNS);
			const void *b = kern_gather(dy, used, columns, n1 - n0, n, m0, m1, KERN_SCRATCH_TILE);
			struct kern_gemm g = {
				.bf16 = x->type == GGML_TYPE_BF16, .trans_b = true, .accumulate = true,
				.m = k1 - k0, .n = m1 - m0, .k = n, .lda = k1 - k0, .ldb = m1 - m0, .ldc = k,
			};
			kern_library_gemm(&g, a, b, dw);
		}
	}
}
