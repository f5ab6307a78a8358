//go:build ignore

#include "compose.h"

static goggml_t goggml_soft_max_ext(struct ggml_context *ctx, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias, bool in_place) {
	goggml_t y = in_place ? ggml_soft_max_ext_inplace(ctx, a, mask, scale, max_bias) : ggml_soft_max_ext(ctx, a, mask, scale, max_bias);
	ggml_soft_max_add_sinks(y, sinks);
	return y;
}

goggml_tensor goggml_op_soft_max_ext(goggml_a arena, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias, bool in_place) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_soft_max_ext(goggml_arena_room(arena, GOGGML_OP_ROOM), a, mask, sinks, scale, max_bias, in_place))
}

static goggml_t goggml_flash_attn_ext(struct ggml_context *ctx, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, goggml_t rows, float scale, float max_bias, float softcap) {
	goggml_t y = rows == NULL ? ggml_flash_attn_ext(ctx, q, k, v, mask, scale, max_bias, softcap)
	                          : ggml_flash_attn_ext_rows(ctx, q, k, v, mask, rows, scale, max_bias, softcap);
	ggml_flash_attn_ext_add_sinks(y, sinks);
	return y;
}

goggml_tensor goggml_op_flash_attn_ext(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, goggml_t rows, float scale, float max_bias, float softcap) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_flash_attn_ext(goggml_arena_room(arena, GOGGML_OP_ROOM), q, k, v, mask, sinks, rows, scale, max_bias, softcap))
}

static goggml_t goggml_conv_2d_dw_f32(struct ggml_context *ctx, goggml_t kernel, goggml_t data, int s0, int s1, int p0, int p1, int d0, int d1) {
	// Each channel is a separate image.
	int64_t channels = data->ne[2], images = channels * data->ne[3];
	goggml_t flat = ggml_reshape_4d(ctx, data, data->ne[0], data->ne[1], 1, images);
	goggml_t rows = ggml_im2col(ctx, kernel, flat, s0, s1, p0, p1, d0, d1, true, GGML_TYPE_F32);
	int64_t positions0 = rows->ne[1], positions1 = rows->ne[2];
	rows = ggml_reshape_4d(ctx, rows, rows->ne[0], positions0 * positions1, channels, data->ne[3]);
	kernel = ggml_reshape_3d(ctx, kernel, rows->ne[0], 1, channels);
	// The kernel gets a gradient only if it comes after im2col in the graph, so it is the second
	// factor. But with several batches data must be: only the second factor can have more batches.
	goggml_t y = data->ne[3] == 1 ? ggml_mul_mat(ctx, rows, kernel) : ggml_mul_mat(ctx, kernel, rows);
	return ggml_reshape_4d(ctx, y, positions0, positions1, channels, data->ne[3]);
}

goggml_tensor goggml_op_conv_2d_dw_f32(goggml_a arena, goggml_t kernel, goggml_t data, int s0, int s1, int p0, int p1, int d0, int d1) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_conv_2d_dw_f32(goggml_arena_room(arena, GOGGML_OP_ROOM), kernel, data, s0, s1, p0, p1, d0, d1))
}
