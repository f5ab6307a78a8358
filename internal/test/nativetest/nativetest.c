#include "nativetest.h"

#include <string.h>

void sum_squares_of_rows(struct ggml_tensor *dst, int ith, int nth, void *userdata) {
	(void)userdata;
	const struct ggml_tensor *x = dst->src[0];
	for (int64_t row = ith; row < x->ne[1]; row += nth) {
		const float *from = (const float *)x->data + row * x->ne[0];
		double sum = 0;
		for (int64_t i = 0; i < x->ne[0]; i++) {
			sum += (double)from[i] * from[i];
		}
		((float *)dst->data)[row] = (float)sum;
	}
}

void scale_by_param(struct ggml_tensor *dst, int ith, int nth, void *userdata) {
	(void)userdata;
	float factor;
	memcpy(&factor, (const char *)dst->op_params + 32, sizeof factor); // NativeParamsOffset
	for (int64_t i = ith; i < ggml_nelements(dst); i += nth) {
		((float *)dst->data)[i] *= factor;
	}
}

void does_nothing(struct ggml_tensor *dst, int ith, int nth, void *userdata) {
	(void)dst, (void)ith, (void)nth, (void)userdata;
}
