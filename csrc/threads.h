// Thread pools and other functions that only the CPU plugin has.
#ifndef GOGGML_THREADS_H
#define GOGGML_THREADS_H

#include "guard.h"

// The address of a function of a plugin, offered or merely exported; or NULL.
void *goggml_reg_symbol(ggml_backend_reg_t reg, const char *name);

// The value is NULL when the plugin has no thread pools.
goggml_ptr goggml_threadpool_new(ggml_backend_reg_t reg, struct ggml_threadpool_params *params);
void goggml_threadpool_free(ggml_backend_reg_t reg, struct ggml_threadpool *pool);
bool goggml_threadpool_pause(ggml_backend_reg_t reg, struct ggml_threadpool *pool, bool pause);
// false when the backend takes none.
bool goggml_backend_set_threadpool(ggml_backend_t backend, struct ggml_threadpool *pool);
bool goggml_backend_set_use_ref(ggml_backend_t backend, bool use_ref);

bool goggml_numa_init(ggml_backend_reg_t reg, enum ggml_numa_strategy strategy);
bool goggml_is_numa(ggml_backend_reg_t reg);
// Prepares the tables of the plugin; false when it has no such function.
bool goggml_cpu_init(ggml_backend_reg_t reg);
// What a function of the plugin without parameters returns; -1 when there is
// no such function.
int goggml_cpu_number(ggml_backend_reg_t reg, const char *function);
// Returns the plugin's routines for a type.
typedef const struct ggml_type_traits_cpu *(*goggml_traits_of)(enum ggml_type type);
// NULL when the plugin does not tell.
goggml_traits_of goggml_cpu_traits_function(ggml_backend_reg_t reg);
const struct ggml_type_traits_cpu *goggml_cpu_traits(ggml_backend_reg_t reg, enum ggml_type type);
goggml_error goggml_cpu_from_float(const struct ggml_type_traits_cpu *traits, const float *src, void *dst, int64_t n);
goggml_error goggml_cpu_vec_dot(const struct ggml_type_traits_cpu *traits, int n, float *result, const void *x, const void *y);

// An array that ends with a NULL name; NULL when there is none.
struct ggml_backend_feature *goggml_features(ggml_backend_reg_t reg);

// The processors and the priority of a thread.
typedef struct {
	int policy, priority;
	bool known;
	unsigned char cpus[128];
} goggml_thread;

goggml_thread goggml_thread_save(void);
void goggml_thread_restore(const goggml_thread *thread);

#endif
