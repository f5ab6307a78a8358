//go:build ignore

#include "ops.h"

// The CPU's count_equal reads the wrong rows of tensors with three or more dimensions (0.27).
static struct ggml_tensor *goggml_matrix(struct ggml_context *ctx, struct ggml_tensor *t) {
	return ggml_n_dims(t) > 2 ? ggml_reshape_2d(ctx, t, t->ne[0], ggml_nrows(t)) : t;
}

#define GOGGML_OP(name, params, args) \
	goggml_tensor goggml_op_##name params { \
		if (arena == NULL) { return (goggml_tensor){0}; } \
		struct ggml_context *ctx; \
		GUARDED(goggml_tensor, (ctx = goggml_arena_room(arena, GOGGML_OP_ROOM), ggml_##name args)) \
	}
#include "ops_list.h"
#undef GOGGML_OP
