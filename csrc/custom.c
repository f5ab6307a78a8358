//go:build ignore

#include "custom.h"

extern void goggmlCustom(uintptr_t id, struct ggml_tensor *dst, int worker, int workers, uintptr_t *calling);

// Runs on the threads of a backend. An assertion of ggml below the Go function must not jump over
// Go's frames.
static void goggml_run_custom(struct ggml_tensor *dst, int worker, int workers, void *id) {
	goggml_guard_state outer = goggml_guard_suspend();
	goggmlCustom((uintptr_t)id, dst, worker, workers, goggml_calling_slot());
	goggml_guard_resume(outer);
}

static void goggml_run_custom1(struct ggml_tensor *dst, const struct ggml_tensor *a, int ith, int nth, void *id) {
	(void)a;
	goggml_run_custom(dst, ith, nth, id);
}

static void goggml_run_custom2(struct ggml_tensor *dst, const struct ggml_tensor *a, const struct ggml_tensor *b,
		int ith, int nth, void *id) {
	(void)a, (void)b;
	goggml_run_custom(dst, ith, nth, id);
}

static void goggml_run_custom3(struct ggml_tensor *dst, const struct ggml_tensor *a, const struct ggml_tensor *b,
		const struct ggml_tensor *c, int ith, int nth, void *id) {
	(void)a, (void)b, (void)c;
	goggml_run_custom(dst, ith, nth, id);
}

static struct ggml_tensor *goggml_map(struct ggml_context *ctx, struct ggml_tensor **x, int n, bool inplace, int tasks, void *id) {
	switch (n) {
	case 1:
		return (inplace ? ggml_map_custom1_inplace : ggml_map_custom1)(ctx, x[0], goggml_run_custom1, tasks, id);
	case 2:
		return (inplace ? ggml_map_custom2_inplace : ggml_map_custom2)(ctx, x[0], x[1], goggml_run_custom2, tasks, id);
	default:
		return (inplace ? ggml_map_custom3_inplace : ggml_map_custom3)(ctx, x[0], x[1], x[2], goggml_run_custom3, tasks, id);
	}
}

goggml_tensor goggml_op_map_custom(goggml_arena *arena, struct ggml_tensor **operands, int n, bool inplace, int tasks, uintptr_t id) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_map(goggml_arena_room(arena, GOGGML_OP_ROOM), operands, n, inplace, tasks, (void *)id))
}

goggml_tensor goggml_op_custom(goggml_arena *arena, goggml_type type, const int64_t *ne, struct ggml_tensor **operands, int n, int tasks, uintptr_t id) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), type, ne[0], ne[1], ne[2], ne[3],
		operands, n, goggml_run_custom, tasks, (void *)id))
}

goggml_tensor goggml_op_custom_inplace(goggml_arena *arena, struct ggml_tensor **operands, int n, int tasks, uintptr_t id) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), operands[0],
		operands + 1, n - 1, goggml_run_custom, tasks, (void *)id))
}

bool goggml_is_go_op(ggml_custom_op_t function) { return function == goggml_run_custom; }

bool goggml_is_custom(const struct ggml_tensor *node) {
	switch (node->op) {
	case GGML_OP_MAP_CUSTOM1:
	case GGML_OP_MAP_CUSTOM2:
	case GGML_OP_MAP_CUSTOM3:
	case GGML_OP_CUSTOM:
		return true;
	default:
		return false;
	}
}

bool goggml_on_host(const struct ggml_tensor *tensor) {
	ggml_backend_buffer_t buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
	return buffer == NULL || ggml_backend_buffer_is_host(buffer);
}

struct ggml_tensor *goggml_graph_next_custom(struct ggml_cgraph *graph, int *i) {
	int n = ggml_graph_n_nodes(graph);
	while (*i < n) {
		struct ggml_tensor *node = ggml_graph_node(graph, (*i)++);
		if (goggml_is_custom(node)) {
			return node;
		}
	}
	return NULL;
}
