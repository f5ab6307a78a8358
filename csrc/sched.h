// The scheduler, guarded.
#ifndef GOGGML_SCHED_H
#define GOGGML_SCHED_H

#include "arena.h"

// Returns the bytes that ggml reserves for copies of a graph's inputs; it uses few of them.
size_t goggml_sched_room(size_t graph_size);
bool goggml_can_allocate(size_t bytes);
goggml_ptr goggml_sched_new(ggml_backend_t *backends, ggml_backend_buffer_type_t *types, int n, size_t graph_size, bool parallel, bool op_offload);
goggml_int goggml_sched_reserve(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
// Assigns a backend to unallocated leaves that ggml leaves unassigned: leaves used only by views,
// or not at all.
goggml_error goggml_sched_assign_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend);
// Allocates the views of weights, so that their readers are computed where the weights lie.
goggml_error goggml_sched_init_weight_views(struct ggml_cgraph *graph);
goggml_int goggml_sched_alloc(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
goggml_int goggml_sched_compute(void *sched, void *graph);
goggml_int goggml_sched_compute_async(void *sched, void *graph);
goggml_error goggml_sched_synchronize(ggml_backend_sched_t sched);
goggml_error goggml_sched_split(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
// Returns the next node from index *i on that changes an unallocated tensor in place, and sets *i
// to the next index; NULL if there is none.
struct ggml_tensor *goggml_graph_next_in_place(struct ggml_cgraph *graph, int *i);
// Nodes, each with the backend to assign it to.
typedef struct {
	struct ggml_tensor **nodes;
	ggml_backend_t *backends;
	int n;
} goggml_owned;
// sizes has one element per backend.
goggml_error goggml_sched_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, goggml_owned owned, size_t *sizes);
goggml_error goggml_sched_reset(ggml_backend_sched_t sched);
goggml_error goggml_sched_set_tensor_backend(ggml_backend_sched_t sched, struct ggml_tensor *node, ggml_backend_t backend);

#endif
