// Settings of existing ops, guarded.
#ifndef GOGGML_PRECISION_H
#define GOGGML_PRECISION_H

#include "guard.h"

// The value is 0 if the op has no such setting.
goggml_int goggml_prec_set_acc(struct ggml_tensor *t, enum ggml_prec prec);
goggml_int goggml_prec_set_src(struct ggml_tensor *t, enum ggml_prec prec, int source);
// Returns how often a precision of a source has been set: device support depends on it.
uint64_t goggml_source_precisions(void);
goggml_int goggml_mul_mat_set_hint(struct ggml_tensor *t, enum ggml_op_hint hint);
goggml_int goggml_flash_attn_set_n_kv_max(struct ggml_tensor *t, int32_t n);

#endif
