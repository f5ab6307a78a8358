#include "low_rank.h"
#include "axpy.h"
#include "library.h"
#include "scratch.h"

#include <string.h>

// The panel that a row is of: its rows [first, first + rows), and where its columns begin.
struct kern_panel {
	int64_t first, rows;
	const char *data;
};

static struct kern_panel kern_panel_of(const struct ggml_tensor *b, int64_t row) {
	int64_t first = row / KERN_PANEL * KERN_PANEL;
	return (struct kern_panel){
		.first = first, .rows = kern_min(KERN_PANEL, b->ne[0] - first),
		.data = (const char *)b->data + first * b->ne[1] * ggml_type_size(b->type),
	};
}

static void kern_convert_factor(enum ggml_type from_type, const void *from, enum ggml_type type, void *to, int64_t n) {
	if (from_type == type) {
		memcpy(to, from, n * ggml_type_size(type));
	} else if (type == GGML_TYPE_F32) {
		kern_to_f32(from_type)(from, to, n);
	} else if (from_type == GGML_TYPE_F32) {
		kern_convert_from_f32(type, from, to, n);
	} else {
		float row[KERN_PANEL];
		kern_to_f32(from_type)(from, row, n);
		kern_convert_from_f32(type, row, to, n);
	}
}

// Rows [m0, m1) of B as a matrix in a type, in scratch memory; *ld is its leading dimension.
static const void *kern_unpack_rows(const struct ggml_tensor *b, enum ggml_type type, int64_t m0, int64_t m1, int64_t *ld) {
	int64_t r = b->ne[1], size = ggml_type_size(type), b_size = ggml_type_size(b->type);
	*ld = m1 - m0 + KERN_LD_PADDING / size;
	char *tile = kern_scratch(KERN_SCRATCH_TILE, *ld * r * size);
	for (int64_t m = m0, n; m < m1; m += n) {
		struct kern_panel p = kern_panel_of(b, m);
		n = kern_min(p.first + p.rows, m1) - m;
		for (int64_t j = 0; j < r; j++) {
			const void *column = p.data + (j * p.rows + m - p.first) * b_size;
			kern_convert_factor(b->type, column, type, tile + (j * *ld + m - m0) * size, n);
		}
	}
	return tile;
}

// Columns [n0, n1) of H, rounded to a type, which for F32 is none; *ld is their leading dimension. They lie in H, or in
// scratch memory until the next call.
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
	const void *rows = kern_unpack_rows(b, h->type, m0, m1, &ldb);
	const void *columns = kern_round_columns(h, h_type, n0, n1, &ldh);
	struct kern_gemm g = {
		.bf16 = h->type == GGML_TYPE_BF16, .trans_a = acc->transposed, .trans_b = acc->transposed, .accumulate = true,
		.m = m1 - m0, .n = n1 - n0, .k = b->ne[1], .lda = ldb, .ldb = ldh, .ldc = acc->ldc,
	};
	if (acc->transposed) {
		g.m = n1 - n0, g.n = m1 - m0, g.lda = ldh, g.ldb = ldb;
	}
	kern_library_gemm(&g, acc->transposed ? columns : rows, acc->transposed ? rows : columns, acc->c);
}

void kern_add_panels(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
		float *y, int64_t ldy, int64_t m0, int64_t m1) {
	int64_t r = b->ne[1], n = h->ne[1], ldh;
	const float *columns = kern_round_columns(h, h_type, 0, n, &ldh);
	enum ggml_type type = kern_axpy_takes(b->type) ? b->type : GGML_TYPE_F32;
	for (int64_t m = m0; m < m1; m += KERN_PANEL) {
		struct kern_panel p = kern_panel_of(b, m);
		const void *panel = p.data;
		if (type != b->type) {
			float *converted = kern_scratch(KERN_SCRATCH_TILE, KERN_PANEL * r * sizeof *converted);
			kern_to_f32(b->type)(panel, converted, p.rows * r);
			panel = converted;
		}
		for (int64_t i = 0; i < n; i++) {
			kern_axpy_rows(y + m + i * ldy, type, panel, p.rows * ggml_type_size(type), columns + i * ldh, r, p.rows);
		}
	}
}
