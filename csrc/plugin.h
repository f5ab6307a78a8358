// Functions that only the plugin of a backend has, found by name; cpu_plugin.h has the CPU plugin's.
#ifndef GOGGML_PLUGIN_H
#define GOGGML_PLUGIN_H

#include "guard.h"

// The address of a function of a plugin, whether the registry offers it or the plugin merely exports it; or NULL.
void *goggml_reg_symbol(ggml_backend_reg_t reg, const char *name);
void *goggml_backend_symbol(ggml_backend_t backend, const char *name);

// What the loader says of a file that it cannot open, for the caller to free; NULL when it can.
char *goggml_open_failure(const char *path);

// An array that ends with a NULL name; NULL when there is none.
struct ggml_backend_feature *goggml_features(ggml_backend_reg_t reg);

// Takes the devices of a backend off the list. Its code stays in memory, so
// that what is in use can be used on.
goggml_error goggml_unload(ggml_backend_reg_t reg);

// Returns the registry of the server's devices, NULL if it has none.
goggml_ptr goggml_rpc_add_server(ggml_backend_reg_t rpc, const char *endpoint);

// false when the driver refuses it, or the plugin has no such function.
bool goggml_cuda_register_host(ggml_backend_reg_t cuda, void *memory, size_t size);
void goggml_cuda_unregister_host(ggml_backend_reg_t cuda, void *memory);
// The value is -1 when the plugin has no such function.
goggml_int goggml_metal_supports_family(ggml_backend_reg_t metal, ggml_backend_t backend, int family);
bool goggml_metal_capture_next_compute(ggml_backend_reg_t metal, ggml_backend_t backend);

#endif
