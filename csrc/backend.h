// Buffers, backends, allocators and the scheduler, guarded.
#ifndef GOGGML_BACKEND_H
#define GOGGML_BACKEND_H

#include "arena.h"

goggml_ptr goggml_buft_alloc(ggml_backend_buffer_type_t type, size_t size);
goggml_ptr goggml_buffer_from_host_ptr(ggml_backend_dev_t device, void *ptr, size_t size, size_t max_tensor_size);
goggml_int goggml_tallocr_alloc(struct ggml_tallocr *allocator, struct ggml_tensor *tensor);
goggml_int goggml_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, void *address);
goggml_int goggml_view_init(struct ggml_tensor *tensor);
goggml_error goggml_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value);

goggml_error goggml_tensor_set(struct ggml_tensor *tensor, const void *data, size_t offset, size_t size);
// The same as a job; the argument is a goggml_piece.
typedef struct {
	const void *data;
	size_t offset, size;
} goggml_piece;
goggml_int goggml_tensor_set_piece(void *tensor, void *piece);
goggml_error goggml_tensor_get(const struct ggml_tensor *tensor, void *data, size_t offset, size_t size);
goggml_error goggml_tensor_memset(struct ggml_tensor *tensor, uint8_t value, size_t offset, size_t size);
goggml_error goggml_tensor_copy(struct ggml_tensor *src, struct ggml_tensor *dst);
// The tensor, or in its place, for a view that was made after its tensor got memory, one with the buffer that the
// library's copies need.
struct ggml_tensor *goggml_with_buffer(struct ggml_tensor *tensor, struct ggml_tensor *room);

goggml_ptr goggml_load(const char *path);
goggml_error goggml_load_all_from(const char *folder);
// The folder of the library that is loaded, or NULL; the caller frees it.
char *goggml_library_folder(void);

goggml_ptr goggml_dev_init(ggml_backend_dev_t device, const char *params);
// Connects the backend's abort callback to a flag; false when it has none.
bool goggml_backend_set_abort_flag(ggml_backend_t backend, int32_t *flag);
bool goggml_backend_set_threads(ggml_backend_t backend, int n);
goggml_int goggml_backend_compute(void *backend, void *graph);
goggml_int goggml_backend_compute_async(void *backend, void *graph);
goggml_error goggml_backend_synchronize(ggml_backend_t backend);

// A plan; the value of a computation is a ggml_status.
goggml_ptr goggml_plan_new(ggml_backend_t backend, struct ggml_cgraph *graph);
goggml_int goggml_plan_compute(void *backend, void *plan);

goggml_ptr goggml_gallocr_new(ggml_backend_buffer_type_t *types, int n);
goggml_int goggml_gallocr_reserve(ggml_gallocr_t allocator, struct ggml_cgraph *graph);
goggml_int goggml_gallocr_reserve_n(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves);
// The value is 1.
goggml_int goggml_gallocr_sizes(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves, size_t *sizes);
goggml_int goggml_gallocr_alloc(ggml_gallocr_t allocator, struct ggml_cgraph *graph);

goggml_ptr goggml_sched_new(ggml_backend_t *backends, ggml_backend_buffer_type_t *types, int n, size_t graph_size, bool parallel, bool op_offload);
goggml_int goggml_sched_reserve(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
// Chooses a backend for leaves without memory for which the library chooses none:
// those that are used by views, or by nothing.
goggml_error goggml_sched_place_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend);
goggml_int goggml_sched_alloc(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
goggml_int goggml_sched_compute(void *sched, void *graph);
goggml_int goggml_sched_compute_async(void *sched, void *graph);
goggml_error goggml_sched_synchronize(ggml_backend_sched_t sched);
goggml_error goggml_sched_split(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
// sizes has room for one of each backend.
goggml_error goggml_sched_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, size_t *sizes);
goggml_error goggml_sched_reset(ggml_backend_sched_t sched);
goggml_error goggml_sched_set_tensor_backend(ggml_backend_sched_t sched, struct ggml_tensor *node, ggml_backend_t backend);

#endif
