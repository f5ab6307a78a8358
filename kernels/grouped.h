// The columns that chose an expert of a mixture: ids [used, n] say which of the matrices W [k, m, experts] multiplies
// which of the columns X [k, used, n], or X [k, 1, n] where those of a token share one.
#ifndef KERN_GROUPED_H
#define KERN_GROUPED_H

#include "kern.h"

// Lists the columns, counted over [used, n], that chose an expert; for the one behind the last, those that chose none
// that there is.
int64_t kern_columns_of(const struct ggml_tensor *ids, int64_t expert, int64_t experts, int32_t *columns);
// Copies the columns of X side by side.
void *kern_gather(const struct ggml_tensor *x, int64_t used, const int32_t *columns, int64_t count);
// Rows [from, to) of columns that chose no expert are NaN.
void kern_no_expert(struct ggml_tensor *dst, const int32_t *columns, int64_t count, int64_t from, int64_t to);

#endif
