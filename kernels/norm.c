#include "norm.h"
#include "vector.h"

#include <string.h>

enum { KERN_NORM_STEP = 16 };

// Σ a·b·w of n elements in F64, as ggml adds up; a w of NULL is all ones.
__attribute__((always_inline)) static inline double kern_dot(const float *restrict a, const float *restrict b, const float *restrict w, int64_t n) {
	double lanes[KERN_NORM_STEP] = {0}, sum = 0;
	int64_t j = 0;
	for (; j + KERN_NORM_STEP <= n; j += KERN_NORM_STEP) {
		for (int i = 0; i < KERN_NORM_STEP; i++) {
			lanes[i] += a[j + i] * (w == NULL ? b[j + i] : b[j + i] * w[j + i]);
		}
	}
	for (; j < n; j++) {
		sum += a[j] * (w == NULL ? b[j] : b[j] * w[j]);
	}
	for (int i = 0; i < KERN_NORM_STEP; i++) {
		sum += lanes[i];
	}
	return sum;
}

// 1/√(mean(x²) + eps), rounded as by ggml: sessions of other devices stay together with those of kernels.
__attribute__((always_inline)) static inline float kern_inverse_rms(const float *x, int64_t n, float eps) {
	float mean = (float)(kern_dot(x, x, NULL, n) / n);
	return 1.0f / sqrtf(mean + eps);
}

KERN_CLONES static void kern_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int64_t n, float eps) {
	float inverse = kern_inverse_rms(x, n, eps);
	int64_t j = 0;
	for (; j + KERN_NORM_STEP <= n; j += KERN_NORM_STEP) {
		for (int i = 0; i < KERN_NORM_STEP; i++) {
			y[j + i] = x[j + i] * inverse * w[j + i];
		}
	}
	for (; j < n; j++) {
		y[j] = x[j] * inverse * w[j];
	}
}

// With u = x/rms and g = dy·w it is (g − u·mean(g·u)) / rms.
KERN_CLONES static void kern_rms_norm_grad(float *restrict dx, const float *restrict dy, const float *restrict x, const float *restrict w,
		int64_t n, float eps) {
	double inverse = kern_inverse_rms(x, n, eps);
	float along = (float)(inverse * inverse * inverse * kern_dot(x, dy, w, n) / n), factor = (float)inverse;
	int64_t j = 0;
	for (; j + KERN_NORM_STEP <= n; j += KERN_NORM_STEP) {
		for (int i = 0; i < KERN_NORM_STEP; i++) {
			dx[j + i] = factor * dy[j + i] * w[j + i] - along * x[j + i];
		}
	}
	for (; j < n; j++) {
		dx[j] = factor * dy[j] * w[j] - along * x[j];
	}
}

static float kern_norm_eps(const struct ggml_tensor *dst) {
	struct kern_norm_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	return p.eps;
}

static float *kern_row(const struct ggml_tensor *t, int64_t r) {
	int64_t i1 = r % t->ne[1], i2 = r / t->ne[1] % t->ne[2], i3 = r / t->ne[1] / t->ne[2];
	return (float *)((char *)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

KERN_OP(weighted_rms_norm) {
	(void)userdata;
	float eps = kern_norm_eps(dst);
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_rms_norm(kern_row(dst, r), kern_row(dst->src[0], r), dst->src[1]->data, dst->ne[0], eps);
	}
}

KERN_OP(weighted_rms_norm_grad) {
	(void)userdata;
	float eps = kern_norm_eps(dst);
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_rms_norm_grad(kern_row(dst, r), kern_row(dst->src[0], r), kern_row(dst->src[1], r), dst->src[2]->data, dst->ne[0], eps);
	}
}
