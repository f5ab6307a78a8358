// Ops of other packages, computed by C functions of this process.
#ifndef GOGGML_NATIVE_H
#define GOGGML_NATIVE_H

#include "ops.h"

// Offset of a native op's parameters in op_params: after ggml's own data of a custom op. The last
// slot belongs to the op's function.
enum {
	GOGGML_NATIVE_OFFSET = 32,
	GOGGML_NATIVE_PARAMS = GGML_MAX_OP_PARAMS - GOGGML_NATIVE_OFFSET - sizeof(int32_t),
};

struct goggml_native_op {
	ggml_custom_op_t function;
	char params[GOGGML_NATIVE_PARAMS];
};

// Makes a tensor of the type and shape; with inplace, a view of the first operand.
goggml_tensor goggml_op_native(goggml_arena *arena, const struct goggml_native_op *op, bool inplace, goggml_type type,
	const int64_t *ne, struct ggml_tensor **operands, int n);

// Returns the function of a native op's tensor; NULL for other tensors.
ggml_custom_op_t goggml_native_function(const struct ggml_tensor *tensor);

// Notes that a server's device computes the native op of a function. Beyond 64 functions and 1,024 devices it does nothing.
void goggml_share_native(ggml_backend_dev_t device, ggml_custom_op_t function);

// Reports whether a server's device computes the native op of a function.
bool goggml_shares_native(ggml_backend_dev_t device, ggml_custom_op_t function);

// Reports whether a node is a native op that a server's device computes.
bool goggml_computes_native(ggml_backend_dev_t device, const struct ggml_tensor *node);

#endif
