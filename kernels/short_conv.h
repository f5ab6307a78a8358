// The convolution of each channel over a token and a few before it, with its activation, and its gradient.
#ifndef KERN_SHORT_CONV_H
#define KERN_SHORT_CONV_H

#include "kern.h"

// The channels and tokens of a chunk.
enum { KERN_CONV_CHANNELS = 1024, KERN_CONV_TOKENS = 64 };

struct kern_short_conv_params {
	int32_t before, bias, positions; // operands; 0 for none
	int32_t step;                    // distance of the taps in tokens
	int32_t silu;                    // the activation is SiLU
};

// x [m, n, rows], kernel [taps, m], before [m, b, rows], bias, positions → y [m, n, rows].
KERN_OP(short_convolution);
// dy, then these → the gradient of x.
KERN_OP(short_convolution_grad);

#endif
