//go:build ignore

#include "compose.h"

static goggml_t goggml_soft_max_sinks(struct ggml_context *ctx, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias) {
	goggml_t y = ggml_soft_max_ext(ctx, a, mask, scale, max_bias);
	ggml_soft_max_add_sinks(y, sinks);
	return y;
}

goggml_tensor goggml_op_soft_max_sinks(goggml_a arena, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_soft_max_sinks(goggml_arena_room(arena, GOGGML_OP_ROOM), a, mask, sinks, scale, max_bias))
}

static goggml_t goggml_flash_attn_sinks(struct ggml_context *ctx, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, float scale, float max_bias, float softcap) {
	goggml_t y = ggml_flash_attn_ext(ctx, q, k, v, mask, scale, max_bias, softcap);
	ggml_flash_attn_ext_add_sinks(y, sinks);
	return y;
}

goggml_tensor goggml_op_flash_attn_sinks(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, float scale, float max_bias, float softcap) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_flash_attn_sinks(goggml_arena_room(arena, GOGGML_OP_ROOM), q, k, v, mask, sinks, scale, max_bias, softcap))
}
