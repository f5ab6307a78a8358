#include "axpy.h"
#include "vector.h"

// Sums side by side, which stay in registers.
enum { KERN_AXPY_STEP = 64 };

bool kern_axpy_takes(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_BF16; }

// The functions for both types differ in the conversion of an element alone.
#define KERN_AXPY(name, element, to_float) \
	KERN_CLONES static void name(float *restrict y, const element *restrict rows, int64_t stride, \
			const float *restrict factors, int64_t count, int64_t n) { \
		for (; n >= KERN_AXPY_STEP; n -= KERN_AXPY_STEP, y += KERN_AXPY_STEP, rows += KERN_AXPY_STEP) { \
			float sums[KERN_AXPY_STEP]; \
			for (int i = 0; i < KERN_AXPY_STEP; i++) { sums[i] = y[i]; } \
			for (int64_t j = 0; j < count; j++) { \
				const element *row = rows + j * stride; \
				for (int i = 0; i < KERN_AXPY_STEP; i++) { sums[i] += factors[j] * to_float(row[i]); } \
			} \
			for (int i = 0; i < KERN_AXPY_STEP; i++) { y[i] = sums[i]; } \
		} \
		for (int64_t j = 0; j < count; j++) { \
			for (int64_t i = 0; i < n; i++) { y[i] += factors[j] * to_float(rows[j * stride + i]); } \
		} \
	}

KERN_AXPY(kern_axpy_f32, float, )
KERN_AXPY(kern_axpy_bf16, uint16_t, kern_from_bf16)

void kern_axpy_rows(float *y, enum ggml_type type, const void *rows, size_t stride, const float *factors, int64_t count, int64_t n) {
	if (type == GGML_TYPE_BF16) {
		kern_axpy_bf16(y, rows, (int64_t)(stride / sizeof(uint16_t)), factors, count, n);
	} else {
		kern_axpy_f32(y, rows, (int64_t)(stride / sizeof(float)), factors, count, n);
	}
}
