// Functions that only the plugin of a backend has, found by name.
#ifndef GOGGML_PLUGIN_H
#define GOGGML_PLUGIN_H

#include "guard.h"

// Takes the devices of a backend off the list. Its code stays in memory, so
// that what is in use can be used on.
goggml_error goggml_unload(ggml_backend_reg_t reg);

// An array that ends with NULL; NULL when the device has none.
ggml_backend_buffer_type_t *goggml_extra_bufts(ggml_backend_dev_t device);
// Tells whether the memory holds matrices in a layout of its own, in which the CPU multiplies and does nothing else.
bool goggml_is_packed(ggml_backend_buffer_type_t type);
// Tells whether the tensor lies in such memory.
bool goggml_lies_packed(const struct ggml_tensor *tensor);
// The operand of the node that lies in such memory, or NULL.
struct ggml_tensor *goggml_packed_operand(const struct ggml_tensor *node);
// The first node with such an operand from index *i on, and the index after it; NULL when there is none.
struct ggml_tensor *goggml_graph_next_packed(struct ggml_cgraph *graph, int *i);
// Tells whether the device of the memory multiplies with the tensor when it lies there.
bool goggml_multiplies(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor);

// The value is the registry of the server's devices, NULL when it has none.
goggml_ptr goggml_rpc_add_server(ggml_backend_reg_t rpc, const char *endpoint);
// Returns only when it fails.
goggml_error goggml_rpc_serve(ggml_backend_reg_t rpc, const char *endpoint, const char *cache_dir, size_t n_threads, size_t n_devices, ggml_backend_dev_t *devices);

// false when the driver refuses it, or the plugin has no such function.
bool goggml_cuda_register_host(ggml_backend_reg_t cuda, void *memory, size_t size);
void goggml_cuda_unregister_host(ggml_backend_reg_t cuda, void *memory);
// The value is -1 when the plugin has no such function.
goggml_int goggml_metal_supports_family(ggml_backend_reg_t metal, ggml_backend_t backend, int family);
bool goggml_metal_capture_next_compute(ggml_backend_reg_t metal, ggml_backend_t backend);

#endif
