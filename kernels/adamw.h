// The optimizer's ops, each of which reads its operands once.
#ifndef KERN_ADAMW_H
#define KERN_ADAMW_H

#include "kern.h"

// Elements whose squares are one sum, whatever the number of threads.
enum { KERN_SQUARES = 16384 };

// A of any shape → the sums of squares of KERN_SQUARES elements each.
KERN_OP(sum_squares);
// Operands A, grad, m, v, settings: moves A and both moments in place by settings[7] · grad, and clears grad. With a
// rate of 0 and β of 1 nothing moves, whatever grad holds.
KERN_OP(adamw_step);

struct kern_gate {
	double clip; // the largest norm; 0 for any
};
// Operands norm² [1], losses and weights [n], settings [8, groups + 1]: the settings of each group, where clipping
// lessens the factor, or the last ones, and in the last column norm², and whether the step is taken.
KERN_OP(gate_step);

#endif
