// RMS norm with its weight, of a sum too, LayerNorm with weight and bias, and their gradients. ggml's own are not
// vectorised, and pass through memory once more for each vector, or many times for a gradient.
#ifndef KERN_NORM_H
#define KERN_NORM_H

#include "kern.h"

struct kern_norm_params {
	float eps;
	int32_t weight, bias; // operand indices; 0 if absent
};

// x, w → w · x / √(mean(x²) + eps), row by row. The weight is optional.
KERN_OP(weighted_rms_norm);
// dy, x, w → the gradient of x.
KERN_OP(weighted_rms_norm_grad);
// x, y, w → x + y, then the norm of the sum.
KERN_OP(add_rms_norm);
// dsum, dy, sum, w → the gradient of x, and of y.
KERN_OP(add_rms_norm_grad);
// x, w, b → w · (x − mean(x)) / √(variance(x) + eps) + b, row by row. Weight and bias are optional.
KERN_OP(layer_norm);
// dy, x, w → the gradient of x.
KERN_OP(layer_norm_grad);

#endif
