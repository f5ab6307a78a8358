//go:build ignore

#include "backend.h"
#include "plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

goggml_ptr goggml_load(const char *path) {
	GUARDED(goggml_ptr, ggml_backend_load(path))
}

goggml_error goggml_load_all_from(const char *folder) {
	GUARDED_VOID(ggml_backend_load_all_from_path(folder))
}

char *goggml_library_folder(void) {
	Dl_info info;
	if (dladdr((void *)ggml_backend_load_all, &info) == 0 || info.dli_fname == NULL) {
		return NULL;
	}
	char *path = realpath(info.dli_fname, NULL);
	char *slash = path ? strrchr(path, '/') : NULL;
	if (slash != NULL) {
		*slash = '\0';
	}
	return path;
}

goggml_error goggml_dev_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props) {
	GUARDED_VOID(ggml_backend_dev_get_props(device, props))
}

goggml_ptr goggml_dev_init(ggml_backend_dev_t device, const char *params) {
	GUARDED(goggml_ptr, ggml_backend_dev_init(device, params))
}

// Runs on a worker thread for each node: a plain load, no call into Go.
static bool goggml_poll_abort(void *flag) {
	return __atomic_load_n((int32_t *)flag, __ATOMIC_RELAXED) == GOGGML_ABORT;
}

bool goggml_backend_set_abort_flag(ggml_backend_t backend, int32_t *flag) {
	ggml_backend_set_abort_callback_t set = (ggml_backend_set_abort_callback_t)goggml_backend_symbol(backend, "ggml_backend_set_abort_callback");
	if (set == NULL) {
		set = (ggml_backend_set_abort_callback_t)goggml_backend_symbol(backend, "ggml_backend_metal_set_abort_callback");
	}
	if (set == NULL) {
		return false;
	}
	set(backend, flag ? goggml_poll_abort : NULL, flag);
	return true;
}

bool goggml_backend_set_threads(ggml_backend_t backend, int n) {
	ggml_backend_set_n_threads_t set = (ggml_backend_set_n_threads_t)goggml_backend_symbol(backend, "ggml_backend_set_n_threads");
	if (set == NULL) {
		return false;
	}
	set(backend, n);
	return true;
}

goggml_int goggml_backend_compute(void *backend, void *graph) {
	GUARDED(goggml_int, ggml_backend_graph_compute(backend, graph))
}

goggml_int goggml_backend_compute_async(void *backend, void *graph) {
	GUARDED(goggml_int, ggml_backend_graph_compute_async(backend, graph))
}

goggml_int goggml_backend_compute_then(void *backend, void *two_graphs) {
	const goggml_two_graphs *graphs = two_graphs;
	goggml_int result = goggml_backend_compute(backend, graphs->first);
	if (result.error != NULL || result.value != GGML_STATUS_SUCCESS) {
		return result;
	}
	int32_t run = GOGGML_RUN; // from here on the flag cannot be raised
	if (!__atomic_compare_exchange_n(graphs->abort, &run, GOGGML_COMMITTED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		result.value = GGML_STATUS_ABORTED;
		return result;
	}
	return goggml_backend_compute(backend, graphs->then);
}

// Returns the memory of a result that lies on the device, or NULL.
static struct ggml_tensor *goggml_result_on(struct ggml_cgraph *graph, ggml_backend_dev_t device) {
	for (int i = ggml_graph_n_nodes(graph) - 1; i >= 0; i--) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		struct ggml_tensor *root = node->view_src != NULL ? node->view_src : node;
		if (root->buffer != NULL && root->data != NULL && ggml_nbytes(root) > 0 &&
				ggml_backend_buft_get_device(ggml_backend_buffer_get_type(root->buffer)) == device) {
			return root;
		}
	}
	return NULL;
}

goggml_error goggml_graph_await(struct ggml_cgraph *graph, ggml_backend_dev_t device) {
	char byte;
	struct ggml_tensor *result = goggml_result_on(graph, device);
	if (result == NULL) {
		return NULL;
	}
	GUARDED_VOID(ggml_backend_tensor_get(result, &byte, 0, 1))
}

goggml_error goggml_backend_synchronize(ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_synchronize(backend))
}

goggml_ptr goggml_plan_new(ggml_backend_t backend, struct ggml_cgraph *graph) {
	GUARDED(goggml_ptr, ggml_backend_graph_plan_create(backend, graph))
}

goggml_int goggml_plan_compute(void *backend, void *plan) {
	GUARDED(goggml_int, ggml_backend_graph_plan_compute(backend, plan))
}
