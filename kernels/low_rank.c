#include "low_rank.h"
#include "library.h"
#include "scratch.h"
#include "vector.h"

// The panel that contains a row, as a matrix, and its first row.
struct kern_panel {
	struct ggml_tensor matrix; // [rows, r]
	int64_t first;
};

static struct kern_panel kern_panel_of(const struct ggml_tensor *b, int64_t row) {
	struct kern_panel p = {.matrix = *b, .first = row / KERN_PANEL * KERN_PANEL};
	p.matrix.ne[0] = kern_min(KERN_PANEL, b->ne[0] - p.first);
	p.matrix.nb[1] = p.matrix.ne[0] * b->nb[0];
	p.matrix.data = (char *)b->data + p.first * b->ne[1] * b->nb[0];
	return p;
}

// Returns columns [n0, n1) of H, rounded to a type; F32 leaves them unchanged. *ld is their leading
// dimension. They lie in H, or in scratch memory until the next call.
static const void *kern_round_columns(const struct ggml_tensor *h, enum ggml_type type, int64_t n0, int64_t n1, int64_t *ld) {
	const char *from = (const char *)h->data + n0 * h->nb[1];
	if (type == GGML_TYPE_F32) {
		*ld = kern_ld(h);
		return from;
	}
	int64_t r = h->ne[0], n = n1 - n0;
	float *columns = kern_scratch(KERN_SCRATCH_FACTORS, r * n * sizeof *columns);
	uint16_t *rounded = kern_scratch(KERN_SCRATCH_ROW, r * sizeof *rounded);
	for (int64_t i = 0; i < n; i++) {
		kern_convert_from_f32(type, (const float *)(from + i * h->nb[1]), rounded, r);
		kern_to_f32(type)(rounded, columns + i * r, r);
	}
	*ld = r;
	return columns;
}

void kern_accumulate_low_rank(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
		const struct kern_accumulator *acc, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
	int64_t ldb, ldh;
	const void *columns = kern_round_columns(h, h_type, n0, n1, &ldh);
	for (int64_t m = m0, end; m < m1; m = end) {
		struct kern_panel p = kern_panel_of(b, m);
		end = kern_min(m1, p.first + p.matrix.ne[0]);
		const void *rows = kern_weight_tile(&p.matrix, 0, h->type, m - p.first, end - p.first, 0, b->ne[1], &ldb);
		struct kern_gemm g = {
			.bf16 = h->type == GGML_TYPE_BF16, .trans_a = acc->transposed, .trans_b = acc->transposed, .accumulate = true,
			.m = end - m, .n = n1 - n0, .k = b->ne[1], .lda = ldb, .ldb = ldh, .ldc = acc->ldc,
		};
		float *c = acc->c + (m - m0) * (acc->transposed ? acc->ldc : 1);
		if (acc->transposed) {
			g.m = n1 - n0, g.n = end - m, g.lda = ldh, g.ldb = ldb;
		}
		kern_library_gemm(&g, acc->transposed ? columns : rows, acc->transposed ? rows : columns, c);
	}
}

// The factors [from, to) of a column.
struct kern_factors {
	int64_t from, to;
};

// AXPY for both types, which differ only in the conversion of an element: y += Σ factors[j] ·
// column j of a panel. The sums of a whole panel stay in registers.
#define KERN_AXPY(name, element, to_float) \
	KERN_CLONES static void name(float *restrict y, const element *restrict panel, const float *restrict factors, int64_t r, int64_t rows) { \
		if (rows < KERN_PANEL) { \
			for (int64_t j = 0; j < r; j++, panel += rows) { \
				for (int64_t i = 0; i < rows; i++) { y[i] += factors[j] * to_float(panel[i]); } \
			} \
			return; \
		} \
		float sums[KERN_PANEL]; \
		for (int i = 0; i < KERN_PANEL; i++) { sums[i] = y[i]; } \
		for (int64_t j = 0; j < r; j++, panel += KERN_PANEL) { \
			for (int i = 0; i < KERN_PANEL; i++) { sums[i] += factors[j] * to_float(panel[i]); } \
		} \
		for (int i = 0; i < KERN_PANEL; i++) { y[i] = sums[i]; } \
	}

KERN_AXPY(kern_axpy_f32, float, )
KERN_AXPY(kern_axpy_bf16, uint16_t, kern_from_bf16)

// Skips the zeros at both ends of a column's factors: with a mixture of adapters, only a column's own adapters have factors.
static struct kern_factors kern_factors_of(const float *column, int64_t r) {
	struct kern_factors f = {.from = 0, .to = r};
	while (f.from < f.to && column[f.from] == 0) { f.from++; }
	while (f.to > f.from && column[f.to - 1] == 0) { f.to--; }
	return f;
}

bool kern_is_sparse(const struct ggml_tensor *h) {
	int64_t used = 0;
	for (int64_t i = 0; i < h->ne[1]; i++) {
		struct kern_factors f = kern_factors_of((const float *)((const char *)h->data + i * h->nb[1]), h->ne[0]);
		used += f.to - f.from;
	}
	return 2 * used <= h->ne[0] * h->ne[1];
}

void kern_add_panels(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
		float *y, int64_t ldy, int64_t m0, int64_t m1) {
	int64_t r = b->ne[1], n = h->ne[1], ldh;
	const float *columns = kern_round_columns(h, h_type, 0, n, &ldh);
	for (int64_t m = m0; m < m1; m += KERN_PANEL) {
		struct kern_panel p = kern_panel_of(b, m);
		int64_t rows = p.matrix.ne[0];
		const void *panel = p.matrix.data;
		if (b->type == GGML_TYPE_F16) {
			float *converted = kern_scratch(KERN_SCRATCH_TILE, rows * r * sizeof *converted);
			kern_to_f32(b->type)(panel, converted, rows * r);
			panel = converted;
		}
		for (int64_t i = 0; i < n; i++) {
			const float *factors = columns + i * ldh;
			struct kern_factors f = kern_factors_of(factors, r);
			if (b->type == GGML_TYPE_BF16) {
				kern_axpy_bf16(y + m + i * ldy, (const uint16_t *)panel + f.from * rows, factors + f.from, f.to - f.from, rows);
			} else {
				kern_axpy_f32(y + m + i * ldy, (const float *)panel + f.from * rows, factors + f.from, f.to - f.from, rows);
			}
		}
	}
}
