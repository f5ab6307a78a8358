// Functions of the CPU plugin alone: thread pools, NUMA, features of the processor, routines of the
// types.
#ifndef GOGGML_CPU_PLUGIN_H
#define GOGGML_CPU_PLUGIN_H

#include "guard.h"

// The value is NULL if the plugin has no thread pools.
goggml_ptr goggml_threadpool_new(ggml_backend_reg_t reg, struct ggml_threadpool_params *params);
void goggml_threadpool_free(ggml_backend_reg_t reg, struct ggml_threadpool *pool);
bool goggml_threadpool_pause(ggml_backend_reg_t reg, struct ggml_threadpool *pool, bool pause);
// Returns false if the backend supports no thread pools.
bool goggml_backend_set_threadpool(ggml_backend_t backend, struct ggml_threadpool *pool);
bool goggml_backend_set_use_ref(ggml_backend_t backend, bool use_ref);

// Returns the bytes of scratch memory that the backend needs to compute the graph, besides its
// tensors; 0 if the plugin does not report it.
goggml_int goggml_cpu_work_size(ggml_backend_t backend, struct ggml_cgraph *graph, int threads);

bool goggml_numa_init(ggml_backend_reg_t reg, enum ggml_numa_strategy strategy);
bool goggml_is_numa(ggml_backend_reg_t reg);
// Prepares the tables of the plugin; returns false if it has no such function.
bool goggml_cpu_init(ggml_backend_reg_t reg);
// Calls a function of the plugin without parameters; returns -1 if there is no such function.
int goggml_cpu_number(ggml_backend_reg_t reg, const char *function);
// Returns the plugin's routines for a type; NULL if the plugin does not export them.
const struct ggml_type_traits_cpu *goggml_cpu_traits(ggml_backend_reg_t reg, enum ggml_type type);
goggml_error goggml_cpu_from_float(const struct ggml_type_traits_cpu *traits, const float *src, void *dst, int64_t n);
goggml_error goggml_cpu_vec_dot(const struct ggml_type_traits_cpu *traits, int n, float *result, const void *x, const void *y);

#endif
