// Meta devices: several devices as one. Each has a part of every tensor.
#ifndef GOGGML_META_H
#define GOGGML_META_H

#include "guard.h"

typedef struct ggml_backend_meta_split_state goggml_split;

// The value is the name, or NULL if axis is invalid.
goggml_ptr goggml_split_axis_name(int axis);
// id is the number of the Go function that splits tensors.
goggml_ptr goggml_meta_device(ggml_backend_dev_t *devices, size_t n, uintptr_t id);

#endif
