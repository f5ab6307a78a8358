#include "norm.h"
#include "vector.h"

#include <string.h>

// Returns Σ a·b·w over n elements in F64, the precision of ggml's sums; if a or b or w is NULL it
// counts as ones.
__attribute__((always_inline)) static inline double kern_dot(const float *restrict a, const float *restrict b, const float *restrict w, int64_t n) {
	double lanes[KERN_LANES] = {0}, sum = 0;
	int64_t j = 0;
	for (; j + KERN_LANES <= n; j += KERN_LANES) {
		for (int i = 0; i < KERN_LANES; i++) {
			float both = b == NULL ? 1 : b[j + i];
			lanes[i] += a[j + i] * (w == NULL ? both : both * w[j + i]);
		}
	}
	for (; j < n; j++) {
		float both = b == NULL ? 1 : b[j];
		sum += a[j] * (w == NULL ? both : both * w[j]);
	}
	for (int i = 0; i < KERN_LANES; i++) {
		sum += lanes[i];
	}
	return sum;
}

// Returns 1/√(mean(x²) + eps), rounded as ggml does, so that sessions with kernels and on other
// devices do not drift apart.
__attribute__((always_inline)) static inline float kern_inverse_rms(const float *x, int64_t n, float eps) {
	float mean = (float)(kern_dot(x, x, NULL, n) / n);
	return 1.0f / sqrtf(mean + eps);
}

KERN_CLONES static void kern_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int64_t n, float eps) {
	float inverse = kern_inverse_rms(x, n, eps);
	KERN_EACH(i, n, y[i] = x[i] * inverse);
	if (w != NULL) {
		KERN_EACH(i, n, y[i] *= w[i]);
	}
}

KERN_CLONES static void kern_add_rms_norm(float *restrict sum, float *restrict normed, const float *restrict x, const float *restrict y,
		const float *restrict w, int64_t n, float eps) {
	KERN_EACH(i, n, sum[i] = x[i] + y[i]);
	float inverse = kern_inverse_rms(sum, n, eps);
	KERN_EACH(i, n, normed[i] = sum[i] * inverse * w[i]);
}

// With u = x/rms and g = dy·w, dx = (g − u·mean(g·u)) / rms, plus dx0 unless it is NULL.
KERN_CLONES static void kern_rms_norm_grad(float *restrict dx, const float *restrict dx0, const float *restrict dy, const float *restrict x,
		const float *restrict w, int64_t n, float eps) {
	double inverse = kern_inverse_rms(x, n, eps);
	float along = (float)(inverse * inverse * inverse * kern_dot(x, dy, w, n) / n), factor = (float)inverse;
	if (w == NULL) {
		KERN_EACH(i, n, dx[i] = factor * dy[i] - along * x[i]);
	} else {
		KERN_EACH(i, n, dx[i] = factor * dy[i] * w[i] - along * x[i]);
	}
	if (dx0 != NULL) { // apart, so that the sum is rounded as by an op of its own
		KERN_EACH(i, n, dx[i] += dx0[i]);
	}
}

// y = x − mean(x). LayerNorm is the RMS norm of y.
__attribute__((always_inline)) static inline void kern_centre(float *restrict y, const float *restrict x, int64_t n) {
	float mean = (float)(kern_dot(x, NULL, NULL, n) / n);
	KERN_EACH(i, n, y[i] = x[i] - mean);
}

KERN_CLONES static void kern_layer_norm(float *restrict y, const float *restrict x, const float *restrict w, const float *restrict b,
		int64_t n, float eps) {
	kern_centre(y, x, n);
	float inverse = kern_inverse_rms(y, n, eps);
	KERN_EACH(i, n, y[i] *= inverse);
	if (w != NULL) {
		KERN_EACH(i, n, y[i] *= w[i]);
	}
	if (b != NULL) {
		KERN_EACH(i, n, y[i] += b[i]);
	}
}

// Gradient of LayerNorm: RMSNorm's gradient for the centred x, centred again. The mean to subtract
// is the mean of dy · w.
KERN_CLONES static void kern_layer_norm_grad(float *restrict dx, const float *restrict dy, const float *restrict x, const float *restrict w,
		int64_t n, float eps) {
	kern_centre(dx, x, n);
	double inverse = kern_inverse_rms(dx, n, eps), cube = inverse * inverse * inverse;
	float factor = (float)inverse;
	if (w == NULL) {
		float along = (float)(cube * kern_dot(dx, dy, NULL, n) / n), mean = (float)(kern_dot(dy, NULL, NULL, n) / n);
		KERN_EACH(i, n, dx[i] = factor * (dy[i] - mean) - along * dx[i]);
		return;
	}
	float along = (float)(cube * kern_dot(dx, dy, w, n) / n), mean = (float)(kern_dot(dy, w, NULL, n) / n);
	KERN_EACH(i, n, dx[i] = factor * (dy[i] * w[i] - mean) - along * dx[i]);
}

static struct kern_norm_params kern_norm_params(const struct ggml_tensor *dst) {
	struct kern_norm_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	return p;
}

static float *kern_row(const struct ggml_tensor *t, int64_t r) {
	int64_t i1 = r % t->ne[1], i2 = r / t->ne[1] % t->ne[2], i3 = r / t->ne[1] / t->ne[2];
	return (float *)((char *)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

// Returns the elements of an optional vector, or NULL.
static const float *kern_vector_of(const struct ggml_tensor *t) { return t == NULL ? NULL : t->data; }

KERN_OP(weighted_rms_norm) {
	(void)userdata;
	struct kern_norm_params p = kern_norm_params(dst);
	const float *w = kern_vector_of(kern_optional(dst, p.weight));
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_rms_norm(kern_row(dst, r), kern_row(dst->src[0], r), w, dst->ne[0], p.eps);
	}
}

KERN_OP(weighted_rms_norm_grad) {
	(void)userdata;
	struct kern_norm_params p = kern_norm_params(dst);
	const float *w = kern_vector_of(kern_optional(dst, p.weight));
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_rms_norm_grad(kern_row(dst, r), NULL, kern_row(dst->src[0], r), kern_row(dst->src[1], r), w, dst->ne[0], p.eps);
	}
}

// The result has the sums, then the norms.
KERN_OP(add_rms_norm) {
	(void)userdata;
	float eps = kern_norm_params(dst).eps;
	int64_t n = dst->ne[0], rows = ggml_nrows(dst) / 2;
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		float *sum = (float *)dst->data + r * n;
		kern_add_rms_norm(sum, sum + rows * n, kern_row(dst->src[0], r), kern_row(dst->src[1], r), dst->src[2]->data, n, eps);
	}
}

KERN_OP(add_rms_norm_grad) {
	(void)userdata;
	float eps = kern_norm_params(dst).eps;
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_rms_norm_grad(kern_row(dst, r), kern_row(dst->src[0], r), kern_row(dst->src[1], r), kern_row(dst->src[2], r), dst->src[3]->data,
				dst->ne[0], eps);
	}
}

KERN_OP(layer_norm) {
	(void)userdata;
	struct kern_norm_params p = kern_norm_params(dst);
	const float *w = kern_vector_of(kern_optional(dst, p.weight)), *b = kern_vector_of(kern_optional(dst, p.bias));
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_layer_norm(kern_row(dst, r), kern_row(dst->src[0], r), w, b, dst->ne[0], p.eps);
	}
}

KERN_OP(layer_norm_grad) {
	(void)userdata;
	struct kern_norm_params p = kern_norm_params(dst);
	const float *w = kern_vector_of(kern_optional(dst, p.weight));
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		kern_layer_norm_grad(kern_row(dst, r), kern_row(dst->src[0], r), kern_row(dst->src[1], r), w, dst->ne[0], p.eps);
	}
}
