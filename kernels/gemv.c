#include "gemv.h"
#include "elementwise.h"
#include "gemv_avx2.h"
#include "gemv_f16.h"
#include "gemv_vnni.h"
#include "grouped.h"
#include "scratch.h"
#include "vector.h"

#include <string.h>

// Distance of software prefetch, and approximate size of the parts of longer rows, in bytes. The
// hardware prefetcher stops at each page. Rows are multiplied in parts, because a dot product right
// after a long prefetch waits for all of it.
enum { KERN_PREFETCH_DISTANCE = 2048, KERN_PART_BYTES = 2048 };

static const struct ggml_type_traits_cpu *(*kern_traits)(enum ggml_type type);

void kern_gemv_open(const struct ggml_type_traits_cpu *(*traits)(enum ggml_type type)) { kern_traits = traits; }

bool kern_gemv_takes(enum ggml_type type) {
	if (kern_traits == NULL || kern_traits(type)->vec_dot == NULL) {
		return false;
	}
	enum ggml_type other = kern_traits(type)->vec_dot_type;
	return other == GGML_TYPE_F32 || kern_traits(other)->from_float != NULL;
}

// Returns a type's own kernel for n columns; NULL if ggml's dot product multiplies it.
static const struct kern_gemv_kernel *kern_gemv_kernel_of(enum ggml_type type, int64_t n) {
	if (type == GGML_TYPE_F16) {
		return kern_gemv_f16();
	}
	const struct kern_gemv_kernel *vnni = kern_vnni_of(type, n);
	return vnni != NULL ? vnni : kern_avx2_of(type);
}

bool kern_gemv_batched(enum ggml_type type) { return kern_traits != NULL && kern_gemv_kernel_of(type, 1) != NULL; }

// Returns the number of elements per part of a row of k. All parts except the last are equal, and
// consist of whole blocks of any type.
static int64_t kern_part_size(enum ggml_type type, int64_t k) {
	enum { BLOCK = 256 };
	int64_t parts = kern_ceil_div((int64_t)ggml_row_size(type, k), KERN_PART_BYTES);
	return kern_ceil_div(kern_ceil_div(k, BLOCK), kern_max(parts, 1)) * BLOCK;
}

// The columns of X, quantised by a thread for one matrix: packed for our own kernel, or in the type
// that ggml's dot product takes.
struct kern_columns {
	const struct ggml_tensor *x;
	int64_t matrix;
	const struct kern_gemv_kernel *kernel;
	enum ggml_type type; // if kernel is NULL
	const char *data;    // NULL initially
	size_t stride;
};

static size_t kern_column_size(const struct kern_columns *c, int64_t k) {
	return c->kernel != NULL ? c->kernel->column_size(k) : ggml_row_size(c->type, k);
}

// Quantises the columns of a matrix for weights of a type, unless they are already.
static void kern_quantize_columns(struct kern_columns *c, enum ggml_type weights, int64_t matrix) {
	const struct kern_gemv_kernel *kernel = kern_gemv_kernel_of(weights, c->x->ne[1]);
	enum ggml_type type = kern_traits(weights)->vec_dot_type;
	bool same = kernel != NULL ? c->kernel != NULL && c->kernel->pack == kernel->pack : c->kernel == NULL && c->type == type;
	c->kernel = kernel;
	c->type = type;
	if (c->data != NULL && same && c->matrix == matrix) {
		return;
	}
	int64_t k = c->x->ne[0], n = c->x->ne[1];
	const float *x = kern_matrix(c->x, matrix);
	c->matrix = matrix;
	c->stride = kern_column_size(c, k);
	c->data = (const char *)x;
	if (kernel == NULL && type == GGML_TYPE_F32) {
		return;
	}
	char *columns = kern_scratch(KERN_SCRATCH_ROW, (size_t)n * c->stride);
	c->data = columns;
	for (; n > 0; n--, x += k, columns += c->stride) {
		if (kernel != NULL) {
			kernel->pack(x, columns, k);
		} else {
			kern_traits(type)->from_float(x, columns, k);
		}
	}
}

// Computes rows [from, to) of a matrix of W, and stores them to y.
static void kern_gemv_rows(const struct ggml_tensor *w, int64_t matrix, const struct kern_columns *c, float *y, int64_t ldy, int64_t from, int64_t to) {
	int64_t k = w->ne[0], n = c->x->ne[1], size = kern_part_size(w->type, k);
	size_t step = ggml_row_size(w->type, size), column_step = ggml_row_size(c->type, size);
	const char *row = (const char *)kern_matrix(w, matrix) + (size_t)from * w->nb[1];
	kern_prefetch(row, KERN_PREFETCH_DISTANCE);
	if (c->kernel != NULL) {
		c->kernel->multiply(y, ldy, k, to - from, row, w->nb[1], c->data, c->stride, n);
		return;
	}
	ggml_vec_dot_t dot = kern_traits(w->type)->vec_dot;
	for (int64_t m = from; m < to; m++, row += w->nb[1], y++) {
		const char *part = row, *column = c->data;
		for (int64_t i = 0; i < n; i++) { y[i * ldy] = 0; }
		for (int64_t rest = k; rest > 0; rest -= size, part += step, column += column_step) {
			kern_prefetch(part + KERN_PREFETCH_DISTANCE, step);
			for (int64_t i = 0; i < n; i++) {
				float sum;
				dot((int)kern_min(rest, size), &sum, 0, part, 0, column + i * c->stride, 0, 1);
				y[i * ldy] += sum;
			}
		}
	}
}

static int64_t kern_row_bytes(const struct ggml_tensor *w) { return (int64_t)ggml_row_size(w->type, w->ne[0]); }

// Threads share the bytes of all weights; each takes the rows that begin in its share.
KERN_OP(gemv) {
	(void)userdata;
	int64_t bytes = 0, first = 0;
	for (int i = 1; i < GGML_MAX_SRC && dst->src[i] != NULL; i++) {
		bytes += ggml_nrows(dst->src[i]) * kern_row_bytes(dst->src[i]);
	}
	int64_t begin = bytes * ith / nth, end = bytes * (ith + 1) / nth;
	struct kern_columns columns = {.x = dst->src[0]};
	for (int i = 1; i < GGML_MAX_SRC && dst->src[i] != NULL; i++) {
		const struct ggml_tensor *w = dst->src[i];
		int64_t m = w->ne[1], size = kern_row_bytes(w), rows = ggml_nrows(w);
		int64_t to = kern_min(rows, kern_ceil_div(kern_max(end, 0), size));
		for (int64_t from = kern_ceil_div(kern_max(begin, 0), size), stop; from < to; from = stop) {
			int64_t matrix = from / m;
			stop = kern_min(to, (matrix + 1) * m);
			kern_quantize_columns(&columns, w->type, matrix);
			float *y = (float *)kern_matrix(dst, matrix) + first;
			kern_gemv_rows(w, matrix, &columns, y + from - matrix * m, dst->ne[0], from - matrix * m, stop - matrix * m);
		}
		first += m;
		begin -= rows * size;
		end -= rows * size;
	}
}

// The columns of X of an expert, quantised. They are quantised again only if they differ from the
// previous expert's.
struct kern_chosen {
	struct ggml_tensor gathered;
	struct kern_columns columns;
};

static void kern_choose(struct kern_chosen *c, const struct ggml_tensor *dst, const int32_t *chosen, int64_t n) {
	const struct ggml_tensor *w = dst->src[0], *x = dst->src[1];
	if (c->columns.data != NULL && x->ne[1] == 1 && x->ne[2] == 1 && c->gathered.ne[1] == n) {
		return;
	}
	c->gathered = *x;
	c->gathered.data = kern_gather(x, dst->ne[1], chosen, n, n, 0, x->ne[0], KERN_SCRATCH_COLUMNS);
	c->gathered.ne[1] = n;
	c->columns = (struct kern_columns){.x = &c->gathered};
	kern_quantize_columns(&c->columns, w->type, 0);
}

// Threads share the rows of all selected experts.
KERN_OP(grouped_gemv) {
	(void)userdata;
	const struct ggml_tensor *w = dst->src[0];
	int64_t m = w->ne[1], experts = w->ne[2], rows = 0;
	struct kern_groups groups = kern_group(dst->src[2], experts);
	for (int64_t expert = 0; expert < experts; expert++) {
		rows += groups.first[expert + 1] > groups.first[expert] ? m : 0;
	}
	struct kern_share s = kern_share_of(rows, ith, nth);
	struct kern_chosen columns = {0};
	for (int64_t expert = 0; expert < experts && s.to > 0; expert++) {
		const int32_t *chosen = groups.columns + groups.first[expert];
		int64_t n = groups.first[expert + 1] - groups.first[expert];
		if (n == 0) {
			continue;
		}
		int64_t from = kern_max(s.from, 0), to = kern_min(s.to, m);
		s.from -= m;
		s.to -= m;
		if (from >= to) {
			continue;
		}
		kern_choose(&columns, dst, chosen, n);
		float *y = kern_scratch(KERN_SCRATCH_ACCUMULATOR, n * (to - from) * sizeof *y);
		kern_gemv_rows(w, expert, &columns.columns, y, to - from, from, to);
		for (int64_t i = 0; i < n; i++, y += to - from) {
			memcpy((float *)dst->data + chosen[i] * m + from, y, (to - from) * sizeof *y);
		}
	}
	if (ith == 0) {
		int64_t first = groups.first[experts];
		kern_no_expert(dst, groups.columns + first, groups.first[experts + 1] - first, 0, m);
	}
}
