// Ops built in several steps.
#ifndef GOGGML_COMPOSE_H
#define GOGGML_COMPOSE_H

#include "ops.h"

// mask and sinks may be NULL.
goggml_tensor goggml_op_soft_max_ext(goggml_a arena, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias, bool in_place);
goggml_tensor goggml_op_flash_attn_ext(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, goggml_t rows, float scale, float max_bias, float softcap);
// ggml's conv_2d_dw converts the data to F16; this computes in F32 throughout.
goggml_tensor goggml_op_conv_2d_dw_f32(goggml_a arena, goggml_t kernel, goggml_t data, int s0, int s1, int p0, int p1, int d0, int d1);

#endif
