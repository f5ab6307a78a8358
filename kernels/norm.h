// RMS norm with its weight, and the gradient: ggml's own are not vectorised, and go through memory once more for the weight.
#ifndef KERN_NORM_H
#define KERN_NORM_H

#include "kern.h"

struct kern_norm_params {
	float eps;
};

// x, w → w · x / √(mean(x²) + eps), row by row.
KERN_OP(weighted_rms_norm);
// dy, x, w → the gradient of x.
KERN_OP(weighted_rms_norm_grad);

#endif
