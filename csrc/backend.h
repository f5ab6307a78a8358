// Backends: plugins, devices, computations and plans, guarded.
#ifndef GOGGML_BACKEND_H
#define GOGGML_BACKEND_H

#include "guard.h"

goggml_ptr goggml_load(const char *path);
goggml_error goggml_load_all_from(const char *folder);
// Returns the folder of the loaded ggml, or NULL; the caller frees it.
char *goggml_library_folder(void);

// A lost device asserts.
goggml_error goggml_dev_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props);
goggml_ptr goggml_dev_init(ggml_backend_dev_t device, const char *params);
// Connects the backend's abort callback to a flag, which GOGGML_ABORT raises; returns false if the
// backend has no such callback.
enum { GOGGML_RUN, GOGGML_ABORT, GOGGML_COMMITTED };
bool goggml_backend_set_abort_flag(ggml_backend_t backend, int32_t *flag);
bool goggml_backend_set_threads(ggml_backend_t backend, int n);
goggml_int goggml_backend_compute(void *backend, void *graph);
goggml_int goggml_backend_compute_async(void *backend, void *graph);
// Two graphs. Once begun, the second is computed to its end. abort is the backend's flag.
typedef struct {
	struct ggml_cgraph *first, *then;
	int32_t *abort;
} goggml_two_graphs;
goggml_int goggml_backend_compute_then(void *backend, void *two_graphs);
// Waits until the device has computed the graph, by reading one of its results.
goggml_error goggml_graph_await(struct ggml_cgraph *graph, ggml_backend_dev_t device);
goggml_error goggml_backend_synchronize(ggml_backend_t backend);

// Plans; the value of a computation is a ggml_status.
goggml_ptr goggml_plan_new(ggml_backend_t backend, struct ggml_cgraph *graph);
goggml_int goggml_plan_compute(void *backend, void *plan);

#endif
