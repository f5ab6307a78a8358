// Ops that the library builds in two steps.
#ifndef GOGGML_COMPOSE_H
#define GOGGML_COMPOSE_H

#include "ops.h"

goggml_tensor goggml_op_soft_max_sinks(goggml_a arena, goggml_t a, goggml_t mask, goggml_t sinks, float scale, float max_bias);
goggml_tensor goggml_op_flash_attn_sinks(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, goggml_t mask, goggml_t sinks, float scale, float max_bias, float softcap);

#endif
