//go:build ignore

#include "backend.h"
#include "threads.h"
#include "graph.h"
#include "pages.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static ggml_backend_buffer_t goggml_new_buffer(ggml_backend_buffer_type_t type, size_t size) {
	ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, size);
	if (buffer != NULL) {
		goggml_huge_buffer(buffer);
	}
	return buffer;
}

goggml_ptr goggml_buft_alloc(ggml_backend_buffer_type_t type, size_t size) {
	GUARDED(goggml_ptr, goggml_new_buffer(type, size))
}

goggml_ptr goggml_buffer_from_host_ptr(ggml_backend_dev_t device, void *ptr, size_t size, size_t max_tensor_size) {
	GUARDED(goggml_ptr, ggml_backend_dev_buffer_from_host_ptr(device, ptr, size, max_tensor_size))
}

goggml_int goggml_tallocr_alloc(struct ggml_tallocr *allocator, struct ggml_tensor *tensor) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_tallocr_alloc(allocator, tensor))
}

goggml_int goggml_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, void *address) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_backend_tensor_alloc(buffer, tensor, address))
}

goggml_int goggml_view_init(struct ggml_tensor *tensor) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_backend_view_init(tensor))
}

goggml_error goggml_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
	GUARDED_VOID(ggml_backend_buffer_clear(buffer, value))
}

goggml_error goggml_tensor_set(struct ggml_tensor *tensor, const void *data, size_t offset, size_t size) {
	GUARDED_VOID(ggml_backend_tensor_set(tensor, data, offset, size))
}

goggml_int goggml_tensor_set_piece(void *tensor, void *arg) {
	const goggml_piece *piece = arg;
	return (goggml_int){.error = goggml_tensor_set(tensor, piece->data, piece->offset, piece->size)};
}

goggml_error goggml_tensor_get(const struct ggml_tensor *tensor, void *data, size_t offset, size_t size) {
	GUARDED_VOID(ggml_backend_tensor_get(tensor, data, offset, size))
}

goggml_error goggml_tensor_memset(struct ggml_tensor *tensor, uint8_t value, size_t offset, size_t size) {
	GUARDED_VOID(ggml_backend_tensor_memset(tensor, value, offset, size))
}

struct ggml_tensor *goggml_with_buffer(struct ggml_tensor *tensor, struct ggml_tensor *room) {
	ggml_backend_buffer_t buffer = tensor->view_src != NULL ? tensor->view_src->buffer : NULL;
	if (tensor->buffer != NULL || buffer == NULL) {
		return tensor;
	}
	ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
	if (device != NULL && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_META) {
		return tensor; // which such a device knows by its address
	}
	*room = *tensor;
	room->buffer = buffer;
	return room;
}

goggml_error goggml_tensor_copy(struct ggml_tensor *src, struct ggml_tensor *dst) {
	struct ggml_tensor room[2];
	GUARDED_VOID(ggml_backend_tensor_copy(goggml_with_buffer(src, &room[0]), goggml_with_buffer(dst, &room[1])))
}

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

goggml_ptr goggml_dev_init(ggml_backend_dev_t device, const char *params) {
	GUARDED(goggml_ptr, ggml_backend_dev_init(device, params))
}

// The address of an optional function of the backend's plugin, offered or merely exported.
static void *goggml_backend_proc(ggml_backend_t backend, const char *name) {
	ggml_backend_dev_t device = ggml_backend_get_device(backend);
	ggml_backend_reg_t reg = device ? ggml_backend_dev_backend_reg(device) : NULL; // a meta device has none
	return reg ? goggml_reg_symbol(reg, name) : NULL;
}

// Runs on a worker thread for each node: a plain load, no call into Go.
static bool goggml_poll_abort(void *flag) {
	return __atomic_load_n((int32_t *)flag, __ATOMIC_RELAXED) != 0;
}

bool goggml_backend_set_abort_flag(ggml_backend_t backend, int32_t *flag) {
	ggml_backend_set_abort_callback_t set = (ggml_backend_set_abort_callback_t)goggml_backend_proc(backend, "ggml_backend_set_abort_callback");
	if (set == NULL) {
		set = (ggml_backend_set_abort_callback_t)goggml_backend_proc(backend, "ggml_backend_metal_set_abort_callback");
	}
	if (set == NULL) {
		return false;
	}
	set(backend, flag ? goggml_poll_abort : NULL, flag);
	return true;
}

bool goggml_backend_set_threads(ggml_backend_t backend, int n) {
	ggml_backend_set_n_threads_t set = (ggml_backend_set_n_threads_t)goggml_backend_proc(backend, "ggml_backend_set_n_threads");
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

goggml_error goggml_backend_synchronize(ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_synchronize(backend))
}

goggml_ptr goggml_plan_new(ggml_backend_t backend, struct ggml_cgraph *graph) {
	GUARDED(goggml_ptr, ggml_backend_graph_plan_create(backend, graph))
}

goggml_int goggml_plan_compute(void *backend, void *plan) {
	GUARDED(goggml_int, ggml_backend_graph_plan_compute(backend, plan))
}

goggml_ptr goggml_gallocr_new(ggml_backend_buffer_type_t *types, int n) {
	GUARDED(goggml_ptr, ggml_gallocr_new_n(types, n))
}

goggml_int goggml_gallocr_reserve(ggml_gallocr_t allocator, struct ggml_cgraph *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_gallocr_reserve(allocator, graph))
}

goggml_int goggml_gallocr_reserve_n(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_gallocr_reserve_n(allocator, graph, nodes, leaves))
}

goggml_int goggml_gallocr_sizes(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves, size_t *sizes) {
	GUARDED(goggml_int, (ggml_gallocr_reserve_n_size(allocator, graph, nodes, leaves, sizes), 1))
}

static bool goggml_allocated(bool done, struct ggml_cgraph *graph) {
	if (done) {
		goggml_huge_graph(graph);
	}
	return done;
}

goggml_int goggml_gallocr_alloc(ggml_gallocr_t allocator, struct ggml_cgraph *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, goggml_allocated(ggml_gallocr_alloc_graph(allocator, graph), graph))
}

goggml_ptr goggml_sched_new(ggml_backend_t *backends, ggml_backend_buffer_type_t *types, int n, size_t graph_size, bool parallel, bool op_offload) {
	GUARDED(goggml_ptr, ggml_backend_sched_new(backends, types, n, graph_size, parallel, op_offload))
}

goggml_int goggml_sched_reserve(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_backend_sched_reserve(sched, graph))
}

typedef void (*goggml_leaf_function)(struct ggml_tensor *leaf, void *arg);

static void goggml_if_loose(struct ggml_tensor *t, goggml_leaf_function f, void *arg) {
	if (t != NULL && t->op == GGML_OP_NONE && t->data == NULL) {
		f(t, arg);
		goggml_if_loose(t->view_src, f, arg); // of an alias
	}
}

// Calls f for leaves without memory for which the library chooses no backend:
// those that are used by views, or by nothing.
static void goggml_each_loose(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, goggml_leaf_function f, void *arg) {
	for (int i = 0; i < n_leaves; i++) {
		goggml_if_loose(leaves[i], f, arg);
	}
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (goggml_is_layout_op(node)) {
			goggml_if_loose(node, f, arg);
			goggml_if_loose(node->src[0], f, arg);
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL && node->src[s]->view_src != NULL) {
				goggml_if_loose(node->src[s], f, arg);
			}
		}
		goggml_if_loose(ggml_graph_get_grad_acc(graph, node), f, arg);
	}
}

struct goggml_place {
	ggml_backend_sched_t sched;
	ggml_backend_t backend;
};

static void goggml_place_leaf(struct ggml_tensor *leaf, void *arg) {
	struct goggml_place *place = arg;
	ggml_backend_sched_set_tensor_backend(place->sched, leaf, place->backend);
}

static void goggml_place_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend) {
	goggml_each_loose(graph, leaves, n_leaves, goggml_place_leaf, &(struct goggml_place){sched, backend});
}

goggml_error goggml_sched_place_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend) {
	GUARDED_VOID(goggml_place_leaves(sched, graph, leaves, n_leaves, backend))
}

goggml_int goggml_sched_alloc(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, goggml_allocated(ggml_backend_sched_alloc_graph(sched, graph), graph))
}

goggml_int goggml_sched_compute(void *sched, void *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_backend_sched_graph_compute(sched, graph))
}

goggml_int goggml_sched_compute_async(void *sched, void *graph) {
	goggml_memory_changes_now();
	GUARDED(goggml_int, ggml_backend_sched_graph_compute_async(sched, graph))
}

goggml_error goggml_sched_synchronize(ggml_backend_sched_t sched) {
	GUARDED_VOID(ggml_backend_sched_synchronize(sched))
}

goggml_error goggml_sched_split(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changes_now();
	GUARDED_VOID(ggml_backend_sched_split_graph(sched, graph))
}

enum { GOGGML_FLAG_LOOSE = 1 << 30 };

static void goggml_as_input(struct ggml_tensor *leaf, void *arg) {
	(void)arg;
	if (!(leaf->flags & GGML_TENSOR_FLAG_INPUT)) {
		leaf->flags |= GGML_TENSOR_FLAG_INPUT | GOGGML_FLAG_LOOSE;
	}
}

static void goggml_as_before(struct ggml_tensor *leaf, void *arg) {
	(void)arg;
	if (leaf->flags & GOGGML_FLAG_LOOSE) {
		leaf->flags &= ~(GGML_TENSOR_FLAG_INPUT | GOGGML_FLAG_LOOSE);
	}
}

static goggml_error goggml_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, size_t *sizes) {
	GUARDED_VOID(ggml_backend_sched_reserve_size(sched, graph, sizes))
}

// Measuring forgets the backends that were chosen before, but not where inputs go.
goggml_error goggml_sched_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, size_t *sizes) {
	goggml_each_loose(graph, leaves, n_leaves, goggml_as_input, NULL);
	goggml_error error = goggml_measure(sched, graph, sizes);
	goggml_each_loose(graph, leaves, n_leaves, goggml_as_before, NULL);
	return error;
}

goggml_error goggml_sched_reset(ggml_backend_sched_t sched) {
	GUARDED_VOID(ggml_backend_sched_reset(sched))
}

goggml_error goggml_sched_set_tensor_backend(ggml_backend_sched_t sched, struct ggml_tensor *node, ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_sched_set_tensor_backend(sched, node, backend))
}
