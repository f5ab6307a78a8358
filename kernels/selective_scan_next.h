// The next tokens of a selective scan, for each kind of processor.
#ifndef KERN_SELECTIVE_SCAN_NEXT_H
#define KERN_SELECTIVE_SCAN_NEXT_H

#include "head.h"

enum { KERN_SCAN_TOKENS = 4 }; // tokens that are computed at once, at most

// The operands of a head of a row, from one token on.
struct kern_scan {
	struct kern_head x, b, c, y;
	const float *steps, *decays; // of each token
	float *dots;                 // [tokens][KERN_SCAN_TOKENS]: C of a token times B of itself and of those before it
	float skip;                  // D
	int64_t size, d, n;
};

struct kern_scan_isa {
	// Writes the dots of n tokens. The heads of a group share them.
	void (*dots)(const struct kern_scan *h);
	// Computes one token or a few, from one state to another or the same, and returns their number.
	int64_t (*next)(float *to, const float *from, const struct kern_scan *h);
};
extern const struct kern_scan_isa kern_scan_avx512, kern_scan_avx2, kern_scan_plain;

#endif
