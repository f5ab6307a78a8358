// The columns assigned to an expert of a mixture: ids [used, n] select one of the matrices W [k, m,
// experts] for each column of X [k, used, n]. In X [k, 1, n] the experts of a token share a column.
#ifndef KERN_GROUPED_H
#define KERN_GROUPED_H

#include "kern.h"
#include "scratch.h"

// Columns, counted over [used, n], sorted by expert: expert i has columns first[i] up to first[i +
// 1]; columns with an invalid index follow the last expert. They lie in scratch memory until the
// next call.
struct kern_groups {
	const int32_t *columns, *first;
};
struct kern_groups kern_group(const struct ggml_tensor *ids, int64_t experts);

// Returns a number of columns with padding: oneDNN compiles a BF16 GEMM for each number of columns,
// and multiplies 16 at a time.
int64_t kern_padded(const struct ggml_tensor *x, int64_t count);
// Copies rows [k0, k1) of columns of X side by side, padded with zeros.
void *kern_gather(const struct ggml_tensor *x, int64_t used, const int32_t *columns, int64_t count, int64_t padded,
	int64_t k0, int64_t k1, enum kern_scratch_use use);
// Sets rows [from, to) of columns with an invalid index to NaN.
void kern_no_expert(struct ggml_tensor *dst, const int32_t *columns, int64_t count, int64_t from, int64_t to);

#endif
