//go:build ignore

#include "callbacks.h"

extern bool goggmlSchedEval(uintptr_t id, struct ggml_tensor *node, bool ask);
extern void goggmlSchedRealloc(uintptr_t id, bool backends, bool size);

static bool goggml_on_eval(struct ggml_tensor *node, bool ask, void *id) {
	struct goggml_frame *outer = goggml_bar();
	bool yes = goggmlSchedEval((uintptr_t)id, node, ask);
	goggml_unbar(outer);
	return yes;
}

static void goggml_on_realloc(ggml_backend_sched_t sched, struct ggml_cgraph *graph, bool backends, bool size, void *id) {
	(void)sched, (void)graph;
	struct goggml_frame *outer = goggml_bar();
	goggmlSchedRealloc((uintptr_t)id, backends, size);
	goggml_unbar(outer);
}

void goggml_sched_set_eval(ggml_backend_sched_t sched, uintptr_t id) {
	ggml_backend_sched_set_eval_callback(sched, id ? goggml_on_eval : NULL, (void *)id);
}

void goggml_sched_set_realloc(ggml_backend_sched_t sched, uintptr_t id) {
	ggml_backend_sched_set_realloc_callback(sched, id ? goggml_on_realloc : NULL, (void *)id);
}
