// The next tokens of a selective scan, for each kind of processor.
#ifndef KERN_SELECTIVE_SCAN_NEXT_H
#define KERN_SELECTIVE_SCAN_NEXT_H

#include "head.h"
#include "vector.h"

// The operands of a head of a row, from one token on.
struct kern_scan {
	struct kern_head x, b, c, y;
	const float *dt;
	int64_t dt_stride; // distance of tokens
	float a, skip;     // skip is D
	int64_t size, d, n;
};

// Computes one token or a few, from one state to another or the same, and returns their number.
typedef int64_t kern_scan_next(float *to, const float *from, const struct kern_scan *h);
kern_scan_next kern_scan_avx512, kern_scan_avx2, kern_scan_plain;

#endif
