//go:build ignore

#include "rows.h"
#include "vector.h"

// So many sums are made side by side: they stay in registers, and none waits
// for another.
enum { ROW_STEP = 64 };

bool goggml_has_rows(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_BF16; }

static inline float goggml_add_up(float *sums) {
	for (int i = 0; i < 32; i++) { sums[i] += sums[i + 32]; }
	for (int i = 0; i < 16; i++) { sums[i] += sums[i + 16]; }
	for (int i = 0; i < 8; i++) { sums[i] += sums[i + 8]; }
	for (int i = 0; i < 4; i++) { sums[i] += sums[i + 4]; }
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The functions for both types differ in what makes floats of the elements alone.
#define GOGGML_ROW_FUNCTIONS(name, element, to_float) \
	GOGGML_CLONES static float goggml_dot_##name(const element *a, const float *x, int64_t n) { \
		float sums[ROW_STEP] = {0}, rest = 0; \
		for (; n >= ROW_STEP; n -= ROW_STEP, a += ROW_STEP, x += ROW_STEP) { \
			for (int i = 0; i < ROW_STEP; i++) { sums[i] += to_float(a[i]) * x[i]; } \
		} \
		for (int64_t i = 0; i < n; i++) { rest += to_float(a[i]) * x[i]; } \
		return rest + goggml_add_up(sums); \
	} \
	GOGGML_CLONES static void goggml_add_rows_##name(float *restrict y, const element *restrict rows, int64_t stride, \
			const float *restrict factors, int64_t r, int64_t n) { \
		for (; n >= ROW_STEP; n -= ROW_STEP, y += ROW_STEP, rows += ROW_STEP) { \
			float sums[ROW_STEP]; \
			for (int i = 0; i < ROW_STEP; i++) { sums[i] = y[i]; } \
			for (int64_t j = 0; j < r; j++) { \
				for (int i = 0; i < ROW_STEP; i++) { sums[i] += factors[j] * to_float(rows[j * stride + i]); } \
			} \
			for (int i = 0; i < ROW_STEP; i++) { y[i] = sums[i]; } \
		} \
		for (int64_t j = 0; j < r; j++) { \
			for (int64_t i = 0; i < n; i++) { y[i] += factors[j] * to_float(rows[j * stride + i]); } \
		} \
	}

GOGGML_ROW_FUNCTIONS(f32, float, )
GOGGML_ROW_FUNCTIONS(bf16, uint16_t, goggml_from_bf16)

float goggml_dot_row(enum ggml_type type, const void *a, const float *x, int64_t n) {
	return type == GGML_TYPE_BF16 ? goggml_dot_bf16(a, x, n) : goggml_dot_f32(a, x, n);
}

void goggml_add_rows(float *y, enum ggml_type type, const void *rows, size_t stride, const float *factors, int64_t r, int64_t n) {
	if (type == GGML_TYPE_BF16) {
		goggml_add_rows_bf16(y, rows, (int64_t)(stride / sizeof(uint16_t)), factors, r, n);
	} else {
		goggml_add_rows_f32(y, rows, (int64_t)(stride / sizeof(float)), factors, r, n);
	}
}
