//go:build ignore

#include "precision.h"

goggml_int goggml_prec_set_acc(struct ggml_tensor *t, enum ggml_prec prec) {
	GUARDED(goggml_int, ggml_prec_set_acc(t, prec))
}

static uint64_t goggml_precisions_set;

uint64_t goggml_source_precisions(void) { return __atomic_load_n(&goggml_precisions_set, __ATOMIC_RELAXED); }

goggml_int goggml_prec_set_src(struct ggml_tensor *t, enum ggml_prec prec, int source) {
	__atomic_add_fetch(&goggml_precisions_set, 1, __ATOMIC_RELAXED);
	GUARDED(goggml_int, ggml_prec_set_src(t, prec, source))
}

goggml_int goggml_mul_mat_set_hint(struct ggml_tensor *t, enum ggml_op_hint hint) {
	GUARDED(goggml_int, (ggml_mul_mat_set_hint(t, hint), 1))
}

goggml_int goggml_flash_attn_set_n_kv_max(struct ggml_tensor *t, int32_t n) {
	GUARDED(goggml_int, (ggml_flash_attn_ext_set_n_kv_max(t, n), 1))
}
