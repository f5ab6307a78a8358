// Repacked weights: the extra buffer types of the CPU hold matrices in layouts of their own, in which it multiplies
// faster and does nothing else.
#ifndef GOGGML_REPACK_H
#define GOGGML_REPACK_H

#include "guard.h"

// The extra buffer types of a device, an array that ends with NULL; NULL if it has none.
ggml_backend_buffer_type_t *goggml_extra_bufts(ggml_backend_dev_t device);
// Reports whether memory of the type repacks what it holds.
bool goggml_repacks(ggml_backend_buffer_type_t type);
// Reports whether the tensor lies in such memory.
bool goggml_is_repacked(const struct ggml_tensor *tensor);
// The first operand of the node in such memory, or NULL.
struct ggml_tensor *goggml_repacked_operand(const struct ggml_tensor *node);
// The first node with such an operand from index *i on, and the index after it; NULL if there is none.
struct ggml_tensor *goggml_graph_next_repacked(struct ggml_cgraph *graph, int *i);
// Reports whether the device of the memory computes mul_mat or mul_mat_id with the tensor as the matrix, if it lies there.
bool goggml_supports_mul_mat(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor);

#endif
