//go:build ignore

#include "rows.h"
#include "vector.h"

// So many sums are made side by side: they stay in registers. So many bytes ahead rows are asked for, because the
// processor guesses what comes next only where it has read for a while.
enum { ROW_STEP = 64, ROW_AHEAD = 256 };

bool goggml_has_rows(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_BF16; }

// The functions for both types differ in what makes floats of the elements alone.
#define GOGGML_ADD_ROWS(name, element, to_float) \
	GOGGML_CLONES static void name(float *restrict y, const element *restrict rows, int64_t stride, \
			const float *restrict factors, int64_t r, int64_t n) { \
		for (; n >= ROW_STEP; n -= ROW_STEP, y += ROW_STEP, rows += ROW_STEP) { \
			float sums[ROW_STEP]; \
			for (int i = 0; i < ROW_STEP; i++) { sums[i] = y[i]; } \
			for (int64_t j = 0; j < r; j++) { \
				const element *row = rows + j * stride; \
				goggml_fetch((const char *)row + ROW_AHEAD, ROW_STEP * sizeof *row); \
				for (int i = 0; i < ROW_STEP; i++) { sums[i] += factors[j] * to_float(row[i]); } \
			} \
			for (int i = 0; i < ROW_STEP; i++) { y[i] = sums[i]; } \
		} \
		for (int64_t j = 0; j < r; j++) { \
			for (int64_t i = 0; i < n; i++) { y[i] += factors[j] * to_float(rows[j * stride + i]); } \
		} \
	}

GOGGML_ADD_ROWS(goggml_add_rows_f32, float, )
GOGGML_ADD_ROWS(goggml_add_rows_bf16, uint16_t, goggml_from_bf16)

void goggml_add_rows(float *y, enum ggml_type type, const void *rows, size_t stride, const float *factors, int64_t r, int64_t n) {
	if (type == GGML_TYPE_BF16) {
		goggml_add_rows_bf16(y, rows, (int64_t)(stride / sizeof(uint16_t)), factors, r, n);
	} else {
		goggml_add_rows_f32(y, rows, (int64_t)(stride / sizeof(float)), factors, r, n);
	}
}
