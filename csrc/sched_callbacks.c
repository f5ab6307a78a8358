//go:build ignore

#include "sched_callbacks.h"

extern bool goggmlSchedEval(uintptr_t id, struct ggml_tensor *node, bool ask, uintptr_t *calling);
extern bool goggmlSchedCopy(uintptr_t id, ggml_backend_t backend, struct ggml_tensor *src, struct ggml_tensor *dst, struct ggml_cgraph *graph, uintptr_t *calling);

static bool goggml_on_eval(struct ggml_tensor *node, bool ask, void *id) {
	goggml_guard_state outer = goggml_guard_suspend();
	bool yes = goggmlSchedEval((uintptr_t)id, node, ask, goggml_calling_slot());
	goggml_guard_resume(outer);
	return yes;
}

static bool goggml_on_copy(ggml_backend_t backend, const struct ggml_tensor *src, struct ggml_tensor *dst, struct ggml_cgraph *graph, void *id) {
	goggml_guard_state outer = goggml_guard_suspend();
	bool done = goggmlSchedCopy((uintptr_t)id, backend, (struct ggml_tensor *)src, dst, graph, goggml_calling_slot());
	goggml_guard_resume(outer);
	return done;
}

void goggml_sched_set_copy(ggml_backend_sched_t sched, uintptr_t id) {
	ggml_backend_sched_set_copy_callback(sched, id ? goggml_on_copy : NULL, (void *)id);
}

goggml_error goggml_copy_part(ggml_backend_t backend, const struct ggml_tensor *src, struct ggml_tensor *dst, size_t offset, size_t size) {
	GUARDED_VOID(ggml_backend_tensor_set_async(backend, dst, (const char *)src->data + offset, offset, size))
}

void goggml_sched_set_eval(ggml_backend_sched_t sched, uintptr_t id) {
	ggml_backend_sched_set_eval_callback(sched, id ? goggml_on_eval : NULL, (void *)id);
}
