//go:build ignore

#include "ops.h"

#define GOGGML_OP(name, params, args) \
	goggml_tensor goggml_op_##name params { \
		if (arena == NULL) { return (goggml_tensor){0}; } \
		struct ggml_context *ctx; \
		GUARDED(goggml_tensor, (ctx = goggml_arena_room(arena, GOGGML_OP_ROOM), ggml_##name args)) \
	}
#include "ops_list.h"
#undef GOGGML_OP
