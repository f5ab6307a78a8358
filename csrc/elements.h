// Ops of single elements in training, in vector instructions, which the library computes one by one.
#ifndef GOGGML_ELEMENTS_H
#define GOGGML_ELEMENTS_H

#include "ops.h"

// a in BF16
goggml_tensor goggml_op_round_bf16(goggml_a arena, goggml_t a);
// The gradient of gate in silu(gate) · up, in place of up.
goggml_tensor goggml_op_swiglu_back(goggml_a arena, goggml_t up, goggml_t gate, goggml_t dy);

#endif
