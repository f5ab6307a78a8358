// Repacked weights: the extra buffer types of the CPU hold matrices in special layouts, which make
// multiplication faster and support nothing else.
#ifndef GOGGML_REPACK_H
#define GOGGML_REPACK_H

#include "guard.h"

// Returns the extra buffer types of a device, an array that ends with NULL; NULL if it has none.
ggml_backend_buffer_type_t *goggml_extra_bufts(ggml_backend_dev_t device);
// Reports whether memory of the type repacks its data.
bool goggml_repacks(ggml_backend_buffer_type_t type);
// Reports whether the tensor lies in such memory.
bool goggml_is_repacked(const struct ggml_tensor *tensor);
// Returns the first operand of the node in such memory, or NULL.
struct ggml_tensor *goggml_repacked_operand(const struct ggml_tensor *node);
// Returns the first node with such an operand from index *i on, and sets *i to the next index; NULL
// if there is none.
struct ggml_tensor *goggml_graph_next_repacked(struct ggml_cgraph *graph, int *i);
// Reports whether the device of the memory supports mul_mat or mul_mat_id with the tensor as the
// matrix, if it lies there.
bool goggml_supports_mul_mat(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor);

#endif
