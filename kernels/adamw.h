// The optimizer's ops. Each reads its operands once.
#ifndef KERN_ADAMW_H
#define KERN_ADAMW_H

#include "kern.h"

// Number of elements in a partial sum of squares, independent of the number of threads.
enum { KERN_SQUARES = 16384 };

// A of any shape → the sums of squares of KERN_SQUARES elements each.
KERN_OP(sum_squares);
// Operands A, grad, m, v, settings: updates A and both moments in place by settings[7] · grad, and
// clears grad. A rate of 0 and β of 1 change nothing, even if grad is NaN.
KERN_OP(adamw_step);

struct kern_gate {
	double clip; // maximum norm; 0 means no limit
};
// Operands norm² [1], losses and weights [n], settings [8, groups + 1] → settings of each group,
// with the factor lowered by clipping, or the settings of a skipped step. The last column has
// norm², and whether the step is made.
KERN_OP(gate_step);

#endif
