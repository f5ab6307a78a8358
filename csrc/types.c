//go:build ignore

#include "types.h"

goggml_int goggml_ftype_type(enum ggml_ftype ftype) {
	GUARDED(goggml_int, ggml_ftype_to_ggml_type(ftype))
}

goggml_int goggml_validate_rows(enum ggml_type type, const void *data, size_t size) {
	GUARDED(goggml_int, ggml_validate_row_data(type, data, size))
}

goggml_error goggml_quantize_init(enum ggml_type type) {
	GUARDED_VOID(ggml_quantize_init(type))
}
