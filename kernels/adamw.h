// The optimizer's ops, each of which reads its operands once.
#ifndef KERN_ADAMW_H
#define KERN_ADAMW_H

#include "kern.h"

// Elements whose squares are one sum, whatever the number of threads.
enum { KERN_SQUARES = 16384 };

// A of any shape → the sums of squares of KERN_SQUARES elements each.
KERN_OP(sum_squares);
// Operands A, grad, m, v, settings: moves A and both moments in place by settings[7] · grad, and clears grad.
KERN_OP(adamw_step);

#endif
