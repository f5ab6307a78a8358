//go:build ignore

#include "native.h"
#include "custom.h"

#include <string.h>

// ggml's data of a custom op begins with its function.
ggml_custom_op_t goggml_native_function(const struct ggml_tensor *tensor) {
	if (tensor->op != GGML_OP_CUSTOM) {
		return NULL;
	}
	ggml_custom_op_t function;
	memcpy(&function, tensor->op_params, sizeof function);
	return goggml_is_go_op(function) ? NULL : function;
}

static struct ggml_tensor *goggml_native(struct ggml_context *ctx, const struct goggml_native_op *op, bool inplace,
		goggml_type type, const int64_t *ne, struct ggml_tensor **x, int n) {
	struct ggml_tensor *t = inplace ?
		ggml_custom_inplace(ctx, x[0], x + 1, n - 1, op->function, GGML_N_TASKS_MAX, NULL) :
		ggml_custom_4d(ctx, type, ne[0], ne[1], ne[2], ne[3], x, n, op->function, GGML_N_TASKS_MAX, NULL);
	// ggml defines the layout of op_params: if a version needs more of it, its data must not be
	// overwritten.
	static const char zero[GGML_MAX_OP_PARAMS - GOGGML_NATIVE_OFFSET];
	char *params = (char *)t->op_params + GOGGML_NATIVE_OFFSET;
	if (memcmp(params, zero, sizeof zero) != 0 || goggml_native_function(t) != op->function) {
		GGML_ABORT("this version of ggml stores custom ops in another way; use the version that goggml was tested with");
	}
	memcpy(params, op->params, sizeof op->params);
	return t;
}

goggml_tensor goggml_op_native(goggml_arena *arena, const struct goggml_native_op *op, bool inplace, goggml_type type,
		const int64_t *ne, struct ggml_tensor **operands, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_native(goggml_arena_room(arena, GOGGML_OP_ROOM), op, inplace, type, ne, operands, n))
}
