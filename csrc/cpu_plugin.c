//go:build ignore

#include "cpu_plugin.h"
#include "plugin.h"

goggml_ptr goggml_threadpool_new(ggml_backend_reg_t reg, struct ggml_threadpool_params *params) {
	struct ggml_threadpool *(*new)(struct ggml_threadpool_params *) = goggml_reg_symbol(reg, "ggml_threadpool_new");
	GUARDED(goggml_ptr, new != NULL ? new(params) : NULL)
}

void goggml_threadpool_free(ggml_backend_reg_t reg, struct ggml_threadpool *pool) {
	void (*free_pool)(struct ggml_threadpool *) = goggml_reg_symbol(reg, "ggml_threadpool_free");
	if (free_pool != NULL) {
		free_pool(pool);
	}
}

bool goggml_threadpool_pause(ggml_backend_reg_t reg, struct ggml_threadpool *pool, bool pause) {
	void (*set)(struct ggml_threadpool *) = goggml_reg_symbol(reg, pause ? "ggml_threadpool_pause" : "ggml_threadpool_resume");
	if (set != NULL) {
		set(pool);
	}
	return set != NULL;
}

bool goggml_backend_set_threadpool(ggml_backend_t backend, struct ggml_threadpool *pool) {
	void (*set)(ggml_backend_t, struct ggml_threadpool *) = goggml_backend_symbol(backend, "ggml_backend_cpu_set_threadpool");
	if (set != NULL) {
		set(backend, pool);
	}
	return set != NULL;
}

bool goggml_backend_set_use_ref(ggml_backend_t backend, bool use_ref) {
	void (*set)(ggml_backend_t, bool) = goggml_backend_symbol(backend, "ggml_backend_cpu_set_use_ref");
	if (set != NULL) {
		set(backend, use_ref);
	}
	return set != NULL;
}

goggml_int goggml_cpu_work_size(ggml_backend_t backend, struct ggml_cgraph *graph, int threads) {
	struct ggml_cplan (*plan)(const struct ggml_cgraph *, int, struct ggml_threadpool *) = goggml_backend_symbol(backend, "ggml_graph_plan");
	GUARDED(goggml_int, plan != NULL ? (int64_t)plan(graph, threads, NULL).work_size : 0)
}

bool goggml_numa_init(ggml_backend_reg_t reg, enum ggml_numa_strategy strategy) {
	void (*init)(enum ggml_numa_strategy) = goggml_reg_symbol(reg, "ggml_backend_cpu_numa_init");
	if (init != NULL) {
		init(strategy);
	}
	return init != NULL;
}

bool goggml_is_numa(ggml_backend_reg_t reg) {
	bool (*is)(void) = goggml_reg_symbol(reg, "ggml_backend_cpu_is_numa");
	return is != NULL && is();
}

bool goggml_cpu_init(ggml_backend_reg_t reg) {
	void (*init)(void) = goggml_reg_symbol(reg, "ggml_cpu_init");
	if (init != NULL) {
		init();
	}
	return init != NULL;
}

int goggml_cpu_number(ggml_backend_reg_t reg, const char *function) {
	int (*number)(void) = goggml_reg_symbol(reg, function);
	return number != NULL ? number() : -1;
}

const struct ggml_type_traits_cpu *goggml_cpu_traits(ggml_backend_reg_t reg, enum ggml_type type) {
	const struct ggml_type_traits_cpu *(*get)(enum ggml_type) = goggml_reg_symbol(reg, "ggml_get_type_traits_cpu");
	return get != NULL ? get(type) : NULL;
}

goggml_error goggml_cpu_from_float(const struct ggml_type_traits_cpu *traits, const float *src, void *dst, int64_t n) {
	GUARDED_VOID(traits->from_float(src, dst, n))
}

goggml_error goggml_cpu_vec_dot(const struct ggml_type_traits_cpu *traits, int n, float *result, const void *x, const void *y) {
	GUARDED_VOID(traits->vec_dot(n, result, 0, x, 0, y, 0, 1))
}
