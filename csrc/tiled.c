//go:build ignore

#include "tiled.h"
#include "dequantize.h"
#include "elements.h"
#include "halves.h"
#include "tasks.h"
#include "transpose.h"
#include "vector.h"

#include <string.h>

static int64_t goggml_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t goggml_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t goggml_cuts(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

// How a result of o × n elements and a number of matrices is cut into tasks:
// pieces that a thread computes on its own.
struct goggml_tasks {
	int64_t o, o_unit, n, n_unit, count;
};

enum { TILE = 256, LEAST_TILE = 32, COLUMNS = 512, NARROW = 64, DEPTH = 512, TASKS = 8, ROWS_AHEAD = 8 };

// In F16, where x is converted for each tile.
enum { TILE_F16 = 512, COLUMNS_F16 = 256, DEPTH_F16 = 256 };

// Bytes between rows that would be at a distance of a power of two: they would share few places in the cache, which
// costs a product up to a tenth.
enum { APART = 64 };

// Pieces are as large as they can be, at most tile × columns, for there to be TASKS of them. Their width in o is a
// multiple of least.
static struct goggml_tasks goggml_cut(int64_t o, int64_t n, int64_t matrices, int64_t least, int64_t tile, int64_t columns) {
	struct goggml_tasks t = {.o = o, .n = n, .o_unit = tile, .n_unit = columns};
	int64_t widest = goggml_cuts(n, columns) * matrices; // tasks with all of o
	if (widest < TASKS) {
		t.o_unit = goggml_cuts(goggml_cuts(o, goggml_cuts(TASKS, widest)), least) * least;
		t.o_unit = goggml_min(t.o_unit, goggml_max(tile, least));
		int64_t parts = goggml_cuts(TASKS, goggml_cuts(o, t.o_unit) * matrices);
		t.n_unit = goggml_min(columns, goggml_max(goggml_cuts(n, parts), LEAST_TILE));
	}
	t.count = goggml_cuts(o, t.o_unit) * goggml_cuts(n, t.n_unit) * matrices;
	return t;
}

// A task: outputs [o0, o1) for columns [n0, n1) of a matrix.
struct goggml_task {
	int64_t o0, o1, n0, n1, matrix;
};

static struct goggml_task goggml_pick(const struct goggml_tasks *t, int64_t i) {
	int64_t n_parts = goggml_cuts(t->n, t->n_unit), o_parts = goggml_cuts(t->o, t->o_unit);
	int64_t n0 = i % n_parts * t->n_unit, o0 = i / n_parts % o_parts * t->o_unit;
	return (struct goggml_task){
		.o0 = o0, .o1 = goggml_min(t->o, o0 + t->o_unit),
		.n0 = n0, .n1 = goggml_min(t->n, n0 + t->n_unit),
		.matrix = i / n_parts / o_parts,
	};
}

static const void *goggml_matrix_of(const struct ggml_tensor *t, int64_t i) {
	return (const char *)t->data + i * t->nb[2];
}

static ggml_to_float_t goggml_to_float(enum ggml_type type) {
	ggml_to_float_t vector = goggml_vector_to_float(type);
	if (vector != NULL) {
		return vector;
	}
	return type == GGML_TYPE_F16 ? goggml_f16_to_float() : ggml_get_type_traits(type)->to_float;
}

// Elements from row to row; those of a single one can be any number.
static int64_t goggml_row_stride(const struct ggml_tensor *t) {
	return t->ne[1] > 1 ? (int64_t)(t->nb[1] / ggml_type_size(t->type)) : t->ne[0];
}

// Rounds n elements to BF16 or F16.
static void goggml_narrow(enum ggml_type type, const float *from, void *to, int64_t n) {
	if (type == GGML_TYPE_BF16) {
		goggml_round(from, to, n);
	} else {
		goggml_float_to_f16()(from, to, n);
	}
}

// Columns [k0, k1) of rows [m0, m1) of a weight, in F32, BF16 or F16, with their row
// stride.
static const void *goggml_tile(const struct ggml_tensor *w, int64_t matrix, enum ggml_type type,
		int64_t k0, int64_t k1, int64_t m0, int64_t m1, int64_t *stride) {
	const char *first = (const char *)goggml_matrix_of(w, matrix) + m0 * w->nb[1] + ggml_row_size(w->type, k0);
	if (w->type == type) {
		*stride = goggml_row_stride(w);
		return first;
	}
	int64_t k = k1 - k0, size = ggml_type_size(type);
	*stride = k + APART / size;
	ggml_to_float_t to_float = goggml_to_float(w->type);
	goggml_to_bf16_t to_bf16 = type == GGML_TYPE_BF16 ? goggml_vector_to_bf16(w->type) : NULL;
	char *tile = goggml_scratch(GOGGML_TILE, *stride * (m1 - m0) * size);
	float *row = type == GGML_TYPE_F32 ? NULL : goggml_scratch(GOGGML_ROW, k * sizeof *row);
	size_t piece = ggml_row_size(w->type, k);
	for (int64_t m = 0; m < m1 - m0; m++) {
		const void *from = first + m * w->nb[1];
		void *to = tile + m * *stride * size;
		// The processor guesses what comes next only within a row.
		goggml_fetch((const char *)from + ROWS_AHEAD * w->nb[1], piece);
		if (type == GGML_TYPE_F32) {
			to_float(from, to, k);
		} else if (to_bf16 != NULL) {
			to_bf16(from, to, k);
		} else if (w->type == GGML_TYPE_F32) {
			goggml_narrow(type, from, to, k);
		} else {
			to_float(from, row, k);
			goggml_narrow(type, row, to, k);
		}
	}
	return tile;
}

// Where a task's products add up.
struct goggml_sum {
	float *out;
	int64_t stride;
	bool turned; // [o, n] instead of [n, o]
};

// What a task needs of the weight for depths [r0, r1).
static const void *goggml_depths(const struct ggml_tensor *w, const struct goggml_task *t, enum ggml_type type,
		bool transposed, int64_t r0, int64_t r1, int64_t *stride) {
	return transposed ?
		goggml_tile(w, t->matrix, type, t->o0, t->o1, r0, r1, stride) :
		goggml_tile(w, t->matrix, type, r0, r1, t->o0, t->o1, stride);
}

// Adds w·x, or with transposed the gradient w·y of x, to a task's sum; add tells
// whether there is something to add to.
static void goggml_pair(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct goggml_sum *sum,
		bool transposed, const struct goggml_task *t, bool add) {
	int64_t depth = transposed ? w->ne[1] : w->ne[0], o = t->o1 - t->o0, n = t->n1 - t->n0;
	int64_t step = n <= NARROW ? 2 * DEPTH : DEPTH; // each call of the library costs some time
	size_t size = ggml_type_size(x->type);
	const char *from = (const char *)goggml_matrix_of(x, t->matrix) + t->n0 * x->ne[0] * size;
	for (int64_t r0 = 0; r0 < depth; r0 += step, from += step * size) {
		int64_t r1 = goggml_min(depth, r0 + step), stride;
		const void *tile = goggml_depths(w, t, x->type, transposed, r0, r1, &stride);
		struct goggml_gemm g = {
			.bf16 = x->type == GGML_TYPE_BF16, .trans_b = !transposed, .add = add || r0 > 0,
			.n = n, .o = o, .r = r1 - r0, .lda = x->ne[0], .ldb = stride, .ldo = sum->stride,
		};
		if (sum->turned) {
			g.n = o, g.o = n, g.lda = stride, g.ldb = x->ne[0];
		}
		goggml_multiply(&g, sum->turned ? tile : from, sum->turned ? from : tile, sum->out);
	}
}

// The same in F16, for x in F32: of columns that are scaled, few elements are added up before the sum goes on in F32.
// What is too large for F16 is multiplied in F32.
static void goggml_pair_f16(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct goggml_sum *sum,
		bool transposed, const struct goggml_task *t, bool add) {
	int64_t depth = transposed ? w->ne[1] : w->ne[0], o = t->o1 - t->o0, n = t->n1 - t->n0, stride;
	const int64_t distance = DEPTH_F16 + APART / sizeof(uint16_t);
	uint16_t *columns = goggml_scratch(GOGGML_COLUMNS, n * distance * sizeof *columns);
	uint16_t *product = goggml_scratch(GOGGML_PRODUCT, n * o * sizeof *product);
	float *undo = goggml_scratch(GOGGML_FACTORS, n * sizeof *undo);
	const float *from = (const float *)goggml_matrix_of(x, t->matrix) + t->n0 * x->ne[0];
	for (int64_t r0 = 0; r0 < depth; r0 += DEPTH_F16, from += DEPTH_F16) {
		int64_t r1 = goggml_min(depth, r0 + DEPTH_F16);
		const void *tile = goggml_depths(w, t, GGML_TYPE_F16, transposed, r0, r1, &stride);
		struct goggml_gemm g = {.trans_b = !transposed, .n = n, .o = o, .r = r1 - r0, .lda = distance, .ldb = stride, .ldo = o};
		goggml_scale_to_f16(from, x->ne[0], columns, distance, undo, n, g.r);
		goggml_multiply_f16(&g, columns, tile, product);
		g.add = add || r0 > 0;
		int64_t done = goggml_sum_f16(product, undo, sum->out, sum->stride, n, o, g.add);
		if (done < n) {
			tile = goggml_depths(w, t, GGML_TYPE_F32, transposed, r0, r1, &stride);
			g.n = n - done, g.lda = x->ne[0], g.ldb = stride, g.ldo = sum->stride;
			goggml_multiply(&g, from + done * x->ne[0], tile, sum->out + done * sum->stride);
		}
	}
}

// Of a product in BF16 the library copies the second operand into a layout of its own, and the first only if it is
// transposed. So tiles of w come first, and the sum is turned in the end: where there are few columns, or tiles are
// large enough and so many are added up that it takes less time.
static bool goggml_turns(const struct ggml_tensor *dst) {
	enum { DEEP = 2048 };
	int64_t pieces = goggml_cuts(dst->ne[0], TILE) * goggml_cuts(dst->ne[1], COLUMNS / 2) * dst->ne[2] * dst->ne[3];
	return dst->src[1]->type == GGML_TYPE_BF16 && (dst->ne[1] <= NARROW || pieces >= TASKS && dst->src[0]->ne[0] >= DEEP);
}

// Adds to a sum the outputs [o0, o1) of columns [n0, n1) of b · h, for b [m, r] and h [r, n].
static void goggml_add_thin(const struct ggml_tensor *b, const struct ggml_tensor *h, const struct goggml_sum *sum,
		int64_t o0, int64_t o1, int64_t n0, int64_t n1) {
	int64_t stride, distance = goggml_row_stride(h);
	const void *rows = goggml_tile(b, 0, h->type, o0, o1, 0, b->ne[1], &stride);
	const void *columns = (const char *)h->data + n0 * h->nb[1];
	struct goggml_gemm g = {
		.bf16 = h->type == GGML_TYPE_BF16, .trans_a = sum->turned, .trans_b = sum->turned, .add = true,
		.n = n1 - n0, .o = o1 - o0, .r = b->ne[1], .lda = distance, .ldb = stride, .ldo = sum->stride,
	};
	if (sum->turned) {
		g.n = o1 - o0, g.o = n1 - n0, g.lda = stride, g.ldb = distance;
	}
	goggml_multiply(&g, sum->turned ? rows : columns, sum->turned ? columns : rows, sum->out);
}

// Adds to a task's sum the products of pairs of b and h, each of which is for the outputs after those of the pair before.
static void goggml_low_rank(const struct ggml_tensor *dst, const struct goggml_sum *sum, const struct goggml_task *t) {
	int64_t first = 0;
	for (int i = 2; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t o0 = goggml_max(t->o0, first), o1 = goggml_min(t->o1, first + b->ne[0]);
		if (o0 < o1) {
			struct goggml_sum part = *sum;
			part.out += (o0 - t->o0) * (sum->turned ? sum->stride : 1);
			goggml_add_thin(b, dst->src[i + 1], &part, o0 - first, o1 - first, t->n0, t->n1);
		}
		first += b->ne[0];
	}
}

// Tells whether an op adds up in F16 what it may.
static bool goggml_rounds(const struct ggml_tensor *dst) {
	return dst->op_params[CUSTOM_PARAMS] == GGML_PREC_F16 && goggml_blas_f16();
}

// Tells whether a pair is multiplied in F16. A matrix in F32 has more bits than that: most are trained.
static bool goggml_in_f16(const struct ggml_tensor *dst, const struct ggml_tensor *w, const struct ggml_tensor *x) {
	return w->type != GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && goggml_rounds(dst);
}

// What an op makes of its operands.
enum goggml_product { GOGGML_Y, GOGGML_X, GOGGML_LOW_RANK };

static void goggml_task_pairs(struct ggml_tensor *dst, enum goggml_product product, const struct goggml_task *t, bool turned) {
	int64_t o = t->o1 - t->o0, n = t->n1 - t->n0;
	float *result = (float *)goggml_matrix_of(dst, t->matrix) + t->n0 * dst->ne[0] + t->o0;
	struct goggml_sum sum = {.out = result, .stride = dst->ne[0], .turned = turned};
	// In F16 a sum is read and written for every DEPTH_F16 of its depth: it stays in the cache, which rows of the result
	// are too far apart for.
	bool apart = turned || goggml_rounds(dst);
	if (apart) {
		sum.out = goggml_scratch(GOGGML_SUM, o * n * sizeof *sum.out);
		sum.stride = turned ? n : o;
	}
	int end = product == GOGGML_LOW_RANK ? 2 : GGML_MAX_SRC;
	for (int i = 0; i < end && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *w = dst->src[i], *x = dst->src[i + 1];
		(goggml_in_f16(dst, w, x) ? goggml_pair_f16 : goggml_pair)(w, x, &sum, product == GOGGML_X, t, i > 0);
	}
	if (product == GOGGML_LOW_RANK) {
		goggml_low_rank(dst, &sum, t);
	}
	if (turned) {
		goggml_transpose(sum.out, o, n, result, dst->ne[0]);
	} else if (apart) {
		for (int64_t i = 0; i < n; i++) {
			memcpy(result + i * dst->ne[0], sum.out + i * o, o * sizeof *result);
		}
	}
}

static void goggml_pairs(struct ggml_tensor *dst, enum goggml_product product, int workers) {
	bool turned = product != GOGGML_X && goggml_turns(dst);
	int64_t least = turned && dst->ne[1] > NARROW ? TILE : LEAST_TILE;
	for (int i = 0; product == GOGGML_X && i < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		least = goggml_max(least, ggml_blck_size(dst->src[i]->type));
	}
	bool f16 = goggml_rounds(dst);
	struct goggml_tasks tasks = goggml_cut(dst->ne[0], dst->ne[1], dst->ne[2] * dst->ne[3], least,
		f16 ? TILE_F16 : TILE, f16 ? COLUMNS_F16 : COLUMNS);
	for (int64_t j; (j = goggml_next_task(dst, tasks.count, workers)) >= 0;) {
		struct goggml_task task = goggml_pick(&tasks, j);
		goggml_task_pairs(dst, product, &task, turned);
	}
}

static void goggml_compute_y(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	goggml_pairs(dst, GOGGML_Y, workers);
}

static void goggml_compute_x(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	goggml_pairs(dst, GOGGML_X, workers);
}

static void goggml_compute_low_rank(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	goggml_pairs(dst, GOGGML_LOW_RANK, workers);
}

// The gradient of w in dst, or added to it.
static void goggml_gradient(const struct ggml_tensor *x, const struct ggml_tensor *y, struct ggml_tensor *dst, bool add, int workers) {
	int64_t k = x->ne[0], m = y->ne[0];
	size_t size = ggml_type_size(x->type);
	struct goggml_tasks tasks = goggml_cut(k, m, dst->ne[2] * dst->ne[3], LEAST_TILE, TILE, COLUMNS);
	for (int64_t j; (j = goggml_next_task(dst, tasks.count, workers)) >= 0;) {
		struct goggml_task t = goggml_pick(&tasks, j);
		struct goggml_gemm g = {
			.bf16 = x->type == GGML_TYPE_BF16, .trans_a = true, .add = add,
			.n = t.n1 - t.n0, .o = t.o1 - t.o0, .r = x->ne[1], .lda = m, .ldb = k, .ldo = k,
		};
		goggml_multiply(&g, (const char *)goggml_matrix_of(y, t.matrix) + t.n0 * size,
			(const char *)goggml_matrix_of(x, t.matrix) + t.o0 * size, (float *)goggml_matrix_of(dst, t.matrix) + t.n0 * k + t.o0);
	}
}

static void goggml_compute_w(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	goggml_gradient(dst->src[0], dst->src[1], dst, false, workers);
}

static void goggml_add_w(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	goggml_gradient(dst->src[1], dst->src[2], dst, true, workers);
}

bool goggml_tiled_set_acc(struct ggml_tensor *t, enum ggml_prec prec) {
	ggml_custom_op_t fun;
	memcpy(&fun, t->op_params, sizeof fun);
	if (t->op != GGML_OP_CUSTOM || fun != goggml_compute_y && fun != goggml_compute_x && fun != goggml_compute_low_rank) {
		return false;
	}
	t->op_params[CUSTOM_PARAMS] = prec;
	return true;
}

static struct ggml_tensor *goggml_tiled(goggml_arena *arena, int64_t ne0, int64_t ne1, struct ggml_tensor **operands, int n, ggml_custom_op_t fun) {
	return ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_F32, ne0, ne1, operands[0]->ne[2], operands[0]->ne[3],
		operands, n, fun, GGML_N_TASKS_MAX, NULL);
}

goggml_tensor goggml_op_tiled_mul_mat(goggml_a arena, struct ggml_tensor **pairs, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_tiled(arena, pairs[0]->ne[1], pairs[1]->ne[1], pairs, n, goggml_compute_y))
}

goggml_tensor goggml_op_tiled_low_rank(goggml_a arena, struct ggml_tensor **operands, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_tiled(arena, operands[0]->ne[1], operands[1]->ne[1], operands, n, goggml_compute_low_rank))
}

goggml_tensor goggml_op_tiled_mul_mat_x(goggml_a arena, struct ggml_tensor **pairs, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_tiled(arena, pairs[0]->ne[0], pairs[1]->ne[1], pairs, n, goggml_compute_x))
}

goggml_tensor goggml_op_tiled_mul_mat_w(goggml_a arena, goggml_t x, goggml_t y) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_tiled(arena, x->ne[0], y->ne[0], (struct ggml_tensor *[]){x, y}, 2, goggml_compute_w))
}

goggml_tensor goggml_op_add_tiled_mul_mat_w(goggml_a arena, goggml_t dw, goggml_t x, goggml_t y) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {x, y};
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), dw, operands, 2,
		goggml_add_w, GGML_N_TASKS_MAX, NULL))
}
