// Ops of other packages, computed by C functions of this process.
#ifndef GOGGML_NATIVE_H
#define GOGGML_NATIVE_H

#include "ops.h"

// Where the parameters of a native op lie in op_params: behind what ggml itself stores of a custom op. The last slot is
// left to the op's function.
enum {
	GOGGML_NATIVE_OFFSET = 32,
	GOGGML_NATIVE_PARAMS = GGML_MAX_OP_PARAMS - GOGGML_NATIVE_OFFSET - sizeof(int32_t),
};

struct goggml_native_op {
	ggml_custom_op_t function;
	char params[GOGGML_NATIVE_PARAMS];
};

// Makes a tensor of the type and shape, or with inplace a view of the first operand.
goggml_tensor goggml_op_native(goggml_arena *arena, const struct goggml_native_op *op, bool inplace, goggml_type type,
	const int64_t *ne, struct ggml_tensor **operands, int n);

// The function that makes the tensor; NULL where that is no native op.
ggml_custom_op_t goggml_native_function(const struct ggml_tensor *tensor);

#endif
