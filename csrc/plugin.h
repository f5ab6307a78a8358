// Functions of single backend plugins, found by name; cpu_plugin.h has the CPU plugin's.
#ifndef GOGGML_PLUGIN_H
#define GOGGML_PLUGIN_H

#include "guard.h"

// Returns the address of a plugin's function, offered by the registry or merely exported by the
// plugin; or NULL.
void *goggml_reg_symbol(ggml_backend_reg_t reg, const char *name);
void *goggml_backend_symbol(ggml_backend_t backend, const char *name);

// Returns the loader's message about a file that it cannot open, which the caller frees; NULL if it
// can.
char *goggml_open_failure(const char *path);

// Returns an array that ends with a NULL name; NULL if there is none.
struct ggml_backend_feature *goggml_features(ggml_backend_reg_t reg);

// Removes the devices of a backend from the list. The plugin's code stays in memory, so that
// objects in use stay valid.
goggml_error goggml_unload(ggml_backend_reg_t reg);

// Returns the registry of the server's devices, or NULL if it has none.
goggml_ptr goggml_rpc_add_server(ggml_backend_reg_t rpc, const char *endpoint);

// Returns false if the driver refuses it, or the plugin has no such function.
bool goggml_cuda_register_host(ggml_backend_reg_t cuda, void *memory, size_t size);
void goggml_cuda_unregister_host(ggml_backend_reg_t cuda, void *memory);
// The value is -1 if the plugin has no such function.
goggml_int goggml_metal_supports_family(ggml_backend_reg_t metal, ggml_backend_t backend, int family);
bool goggml_metal_capture_next_compute(ggml_backend_reg_t metal, ggml_backend_t backend);

#endif
