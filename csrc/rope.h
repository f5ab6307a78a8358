// Rotary position embedding: one shim for its builders.
#ifndef GOGGML_ROPE_H
#define GOGGML_ROPE_H

#include "ops.h"

enum goggml_rope_form { GOGGML_ROPE, GOGGML_ROPE_INPLACE, GOGGML_ROPE_BACK };

typedef struct {
	int dims, mode, ctx_orig, offset;
	int sections[GGML_MROPE_SECTIONS];
	float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
	bool unrounded;
} goggml_rope;

goggml_tensor goggml_op_rope(goggml_a arena, enum goggml_rope_form form, goggml_t a, goggml_t pos, goggml_t factors, goggml_rope rope);

#endif
