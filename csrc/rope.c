//go:build ignore

#include "rope.h"

#define GOGGML_ROPE_ARGS r.mode, r.ctx_orig, r.freq_base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast, r.beta_slow

// The CPU reads a factor for each pair of the head, including pairs that are not rotated.
static goggml_t goggml_rope_factors(struct ggml_context *ctx, goggml_t a, goggml_t factors) {
	int64_t missing = factors != NULL ? (a->ne[0] + 1) / 2 - factors->ne[0] : 0;
	return missing > 0 ? ggml_pad(ctx, factors, (int)missing, 0, 0, 0) : factors;
}

static goggml_t goggml_build_rope(struct ggml_context *ctx, enum goggml_rope_form form, goggml_t a, goggml_t pos, goggml_t factors, goggml_rope r) {
	bool multi = r.mode & GGML_ROPE_TYPE_MROPE;
	factors = goggml_rope_factors(ctx, a, factors);
	switch (form) {
	case GOGGML_ROPE_INPLACE:
		return multi ? ggml_rope_multi_inplace(ctx, a, pos, factors, r.dims, r.sections, GOGGML_ROPE_ARGS)
		             : ggml_rope_ext_inplace(ctx, a, pos, factors, r.dims, GOGGML_ROPE_ARGS);
	case GOGGML_ROPE_BACK:
		return multi ? ggml_rope_multi_back(ctx, a, pos, factors, r.dims, r.sections, GOGGML_ROPE_ARGS)
		             : ggml_rope_ext_back(ctx, a, pos, factors, r.dims, GOGGML_ROPE_ARGS);
	default:
		return multi ? ggml_rope_multi(ctx, a, pos, factors, r.dims, r.sections, GOGGML_ROPE_ARGS)
		             : ggml_rope_ext(ctx, a, pos, factors, r.dims, GOGGML_ROPE_ARGS);
	}
}

static goggml_t goggml_rope_set(goggml_t y, goggml_rope r) {
	if (r.offset > 0) { ggml_rope_set_offset(y, r.offset); }
	if (r.unrounded) { ggml_rope_set_truncate(y, false); }
	return y;
}

goggml_tensor goggml_op_rope(goggml_a arena, enum goggml_rope_form form, goggml_t a, goggml_t pos, goggml_t factors, goggml_rope rope) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_rope_set(goggml_build_rope(goggml_arena_room(arena, GOGGML_OP_ROOM), form, a, pos, factors, rope), rope))
}
