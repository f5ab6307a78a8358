// Types and their data, guarded.
#ifndef GOGGML_TYPES_H
#define GOGGML_TYPES_H

#include "guard.h"

goggml_int goggml_ftype_type(enum ggml_ftype ftype);
// The value is 0 if the data contains invalid values.
goggml_int goggml_validate_rows(enum ggml_type type, const void *data, size_t size);
goggml_error goggml_quantize_init(enum ggml_type type);

#endif
