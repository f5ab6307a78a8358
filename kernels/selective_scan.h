// The selective scan of Mamba-2 (arXiv 2405.21060) for the next tokens of sequences. States are read and written where they are
// kept. The products of four rows of a head's matrix with four tokens stay in registers.
#ifndef KERN_SELECTIVE_SCAN_H
#define KERN_SELECTIVE_SCAN_H

#include "kern.h"

struct kern_scan_params {
	int32_t d; // operand index; 0 if absent
};

// x [size, heads, n, rows], dt [heads, n, rows], a [heads], b and c [d, groups, n, rows], states [d·size·heads, vectors], and the
// vectors that each row reads and writes; optional: d [heads] → y [size, heads, n, rows]
KERN_OP(selective_scan);

#endif
