//go:build ignore

#include "plugin.h"

#include <dlfcn.h>
#include <string.h>

void *goggml_reg_symbol(ggml_backend_reg_t reg, const char *name) {
	void *symbol = ggml_backend_reg_get_proc_address(reg, name);
	if (symbol != NULL) {
		return symbol;
	}
	// The registry is static data of the plugin: its address leads to the plugin's file.
	Dl_info info;
	if (dladdr(reg, &info) == 0) {
		return NULL;
	}
	void *plugin = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (plugin == NULL) {
		return NULL;
	}
	symbol = dlsym(plugin, name);
	dlclose(plugin); // the registry keeps it open
	return symbol;
}

void *goggml_backend_symbol(ggml_backend_t backend, const char *name) {
	ggml_backend_dev_t device = ggml_backend_get_device(backend);
	ggml_backend_reg_t reg = device ? ggml_backend_dev_backend_reg(device) : NULL; // a meta device has none
	return reg ? goggml_reg_symbol(reg, name) : NULL;
}

char *goggml_open_failure(const char *path) {
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (plugin == NULL) {
		return strdup(dlerror());
	}
	dlclose(plugin);
	return NULL;
}

struct ggml_backend_feature *goggml_features(ggml_backend_reg_t reg) {
	ggml_backend_get_features_t get = (ggml_backend_get_features_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
	return get != NULL ? get(reg) : NULL;
}

goggml_error goggml_unload(ggml_backend_reg_t reg) {
	Dl_info info;
	// The address of static data of the plugin; data it allocated later would not identify the
	// plugin.
	if (dladdr(reg, &info) != 0) {
		dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	}
	GUARDED_VOID(ggml_backend_unload(reg))
}

goggml_ptr goggml_rpc_add_server(ggml_backend_reg_t rpc, const char *endpoint) {
	ggml_backend_reg_t (*add)(const char *) = goggml_reg_symbol(rpc, "ggml_backend_rpc_add_server");
	GUARDED(goggml_ptr, add != NULL ? add(endpoint) : NULL)
}


bool goggml_cuda_register_host(ggml_backend_reg_t cuda, void *memory, size_t size) {
	bool (*add)(void *, size_t) = goggml_reg_symbol(cuda, "ggml_backend_register_host_buffer");
	return add != NULL && add(memory, size);
}

void goggml_cuda_unregister_host(ggml_backend_reg_t cuda, void *memory) {
	void (*end)(void *) = goggml_reg_symbol(cuda, "ggml_backend_unregister_host_buffer");
	if (end != NULL) {
		end(memory);
	}
}

goggml_int goggml_metal_supports_family(ggml_backend_reg_t metal, ggml_backend_t backend, int family) {
	bool (*supports)(ggml_backend_t, int) = goggml_reg_symbol(metal, "ggml_backend_metal_supports_family");
	GUARDED(goggml_int, supports != NULL ? supports(backend, family) : -1)
}

bool goggml_metal_capture_next_compute(ggml_backend_reg_t metal, ggml_backend_t backend) {
	void (*capture)(ggml_backend_t) = goggml_reg_symbol(metal, "ggml_backend_metal_capture_next_compute");
	if (capture != NULL) {
		capture(backend);
	}
	return capture != NULL;
}
