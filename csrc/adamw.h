// The optimiser's ops on the CPU: each reads its operands once, with vector
// instructions.
#ifndef GOGGML_ADAMW_H
#define GOGGML_ADAMW_H

#include "ops.h"

// a of any shape → the sums of the squares of SQUARES elements each, in their
// order.
goggml_tensor goggml_op_square_sums(goggml_a arena, goggml_t a);
// a is moved by params[7] · grad, and m and v with it; grad becomes zero. All
// are in place.
goggml_tensor goggml_op_adamw(goggml_a arena, goggml_t a, goggml_t grad, goggml_t m, goggml_t v, goggml_t params);

#endif
