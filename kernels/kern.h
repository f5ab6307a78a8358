// Shared by all kernels: ggml's headers, the parameters of an op, matrices and sizes.
//
// Products are described as in BLAS, in column-major order, which is ggml's: a tensor [m, n] with
// ne0 = m is a matrix of m rows and n columns, whose leading dimension is the distance of its
// columns in elements.
#ifndef KERN_H
#define KERN_H

#include <ggml.h>
#include <ggml-cpu.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An op's function has the parameters of ggml_custom_op_t: thread ith of nth.
#define KERN_OP(name) void kern_op_##name(struct ggml_tensor *dst, int ith, int nth, void *userdata)

// Offset of the op's own parameters in op_params: ggml.NativeParamsOffset.
enum { KERN_PARAMS_OFFSET = 32 };

static inline const void *kern_params(const struct ggml_tensor *dst) {
	return (const char *)dst->op_params + KERN_PARAMS_OFFSET;
}

// Returns an optional operand by its index; NULL if the index is 0.
static inline const struct ggml_tensor *kern_optional(const struct ggml_tensor *dst, int32_t operand) {
	return operand == 0 ? NULL : dst->src[operand];
}

// Padding of the leading dimension, in bytes: power-of-two strides map to the same cache sets, and the conflict misses
// cost up to 10 % of a GEMM.
enum { KERN_LD_PADDING = 64 };

// Leading dimension of a matrix; any number is valid for a single column.
static inline int64_t kern_ld(const struct ggml_tensor *t) {
	return t->ne[1] > 1 ? (int64_t)(t->nb[1] / ggml_type_size(t->type)) : t->ne[0];
}

// Matrix i of a contiguous tensor, counted over dimensions 2 and 3.
static inline void *kern_matrix(const struct ggml_tensor *t, int64_t i) { return (char *)t->data + i * t->nb[2]; }

static inline int64_t kern_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t kern_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t kern_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
