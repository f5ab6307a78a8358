//go:build ignore

#include "stream.h"
#include "blas.h"
#include "dots.h"
#include "threads.h"
#include "vector.h"

// So many bytes ahead of the product the matrix is asked for. The processor's own guesses end with each page, and a
// dot product of the library waits for them. Longer rows are multiplied in pieces of about as many: all that is asked
// for at once is waited for.
enum { STREAM_AHEAD = 2048, STREAM_PIECE = 2048 };

static goggml_traits_of goggml_traits;

bool goggml_stream_open(ggml_backend_reg_t cpu) {
	goggml_traits = goggml_cpu_traits_function(cpu);
	return goggml_traits != NULL;
}

bool goggml_can_stream(enum ggml_type type) {
	if (goggml_traits(type)->vec_dot == NULL) { return false; }
	enum ggml_type other = goggml_traits(type)->vec_dot_type;
	return other == GGML_TYPE_F32 || goggml_traits(other)->from_float != NULL;
}

bool goggml_streams_columns(enum ggml_type type) { return goggml_dots_of(type) != NULL; }

// Elements of a piece of a row of k: pieces are equal but for the last, and made of blocks of any type.
static int64_t goggml_stream_piece(enum ggml_type type, int64_t k) {
	enum { BLOCK = 256 };
	int64_t pieces = goggml_cuts((int64_t)ggml_row_size(type, k), STREAM_PIECE);
	return goggml_cuts(goggml_cuts(k, BLOCK), goggml_max(pieces, 1)) * BLOCK;
}

// The columns of x that a worker has converted: those of one matrix, in the layout that our own products take, or in
// the type that the library's do.
struct goggml_columns {
	const struct ggml_tensor *x;
	int64_t matrix;
	const struct goggml_dots *dots;
	enum ggml_type type; // where dots is NULL
	const char *first;   // NULL before there are any
	size_t distance;
};

static size_t goggml_column_size(const struct goggml_columns *c, int64_t k) {
	return c->dots != NULL ? c->dots->column_size(k) : ggml_row_size(c->type, k);
}

// Converts those of a matrix for rows of a type, if they are not yet.
static void goggml_stream_columns(struct goggml_columns *c, enum ggml_type rows, int64_t matrix) {
	const struct goggml_dots *dots = goggml_dots_of(rows);
	enum ggml_type type = goggml_traits(rows)->vec_dot_type;
	if (c->first != NULL && c->dots == dots && c->type == type && c->matrix == matrix) {
		return;
	}
	int64_t k = c->x->ne[0], n = c->x->ne[1];
	const float *x = goggml_matrix_of(c->x, matrix);
	c->dots = dots;
	c->type = type;
	c->matrix = matrix;
	c->distance = goggml_column_size(c, k);
	c->first = (const char *)x;
	if (type == GGML_TYPE_F32) {
		return;
	}
	char *columns = goggml_scratch(GOGGML_ROW, (size_t)n * c->distance);
	c->first = columns;
	for (; n > 0; n--, x += k, columns += c->distance) {
		if (dots != NULL) {
			dots->lay_out(x, columns, k);
		} else {
			goggml_traits(type)->from_float(x, columns, k);
		}
	}
}

// Adds the products of a piece of a row with that of each column to sums that lie so far apart.
static void goggml_add_dots(float *y, int64_t apart, enum ggml_type type, const struct goggml_columns *c, int64_t k, const char *row, const char *column) {
	int64_t n = c->x->ne[1];
	if (c->dots != NULL) {
		c->dots->add(y, apart, k, row, column, c->distance, n);
		return;
	}
	ggml_vec_dot_t product = goggml_traits(type)->vec_dot;
	for (; n > 0; n--, y += apart, column += c->distance) {
		float sum;
		product((int)k, &sum, 0, row, 0, column, 0, 1);
		*y += sum;
	}
}

// Rows [from, to) of one matrix. The sums of a column lie so far apart from those of the next.
static void goggml_stream_rows(const struct ggml_tensor *w, const struct goggml_columns *c, float *y, int64_t apart, int64_t from, int64_t to) {
	int64_t k = w->ne[0], n = c->x->ne[1], piece = goggml_stream_piece(w->type, k);
	size_t step = ggml_row_size(w->type, piece), column_step = goggml_column_size(c, piece);
	const char *row = (const char *)goggml_matrix_of(w, c->matrix) + (size_t)from * w->nb[1];
	goggml_fetch(row, STREAM_AHEAD);
	for (int64_t o = from; o < to; o++, row += w->nb[1]) {
		const char *part = row, *column = c->first;
		for (int64_t i = 0; i < n; i++) { y[i * apart + o] = 0; }
		for (int64_t rest = k; rest > 0; rest -= piece, part += step, column += column_step) {
			goggml_fetch(part + STREAM_AHEAD, step);
			goggml_add_dots(y + o, apart, w->type, c, goggml_min(rest, piece), part, column);
		}
	}
}

// The operands are a matrix, x, and more matrices.
static int goggml_next_matrix(int i) { return i == 0 ? 2 : i + 1; }

static int64_t goggml_row_bytes(const struct ggml_tensor *w) { return (int64_t)ggml_row_size(w->type, w->ne[0]); }

// Workers divide the bytes of all matrices, and each takes the rows that begin in its part.
static void goggml_stream(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	int64_t bytes = 0, first = 0;
	for (int i = 0; i < GGML_MAX_SRC && dst->src[i] != NULL; i = goggml_next_matrix(i)) {
		bytes += ggml_nrows(dst->src[i]) * goggml_row_bytes(dst->src[i]);
	}
	int64_t begin = bytes * worker / workers, end = bytes * (worker + 1) / workers;
	struct goggml_columns columns = {.x = dst->src[1]};
	for (int i = 0; i < GGML_MAX_SRC && dst->src[i] != NULL; i = goggml_next_matrix(i)) {
		const struct ggml_tensor *w = dst->src[i];
		int64_t m = w->ne[1], size = goggml_row_bytes(w), rows = ggml_nrows(w);
		int64_t to = goggml_min(rows, goggml_cuts(goggml_max(end, 0), size));
		for (int64_t from = goggml_cuts(goggml_max(begin, 0), size), stop; from < to; from = stop) {
			int64_t matrix = from / m;
			stop = goggml_min(to, (matrix + 1) * m);
			goggml_stream_columns(&columns, w->type, matrix);
			float *y = (float *)goggml_matrix_of(dst, matrix) + first;
			goggml_stream_rows(w, &columns, y, dst->ne[0], from - matrix * m, stop - matrix * m);
		}
		first += m;
		begin -= rows * size;
		end -= rows * size;
	}
}

goggml_tensor goggml_op_stream_mul_mat(goggml_a arena, struct ggml_tensor **operands, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	const struct ggml_tensor *x = operands[1];
	int64_t rows = 0;
	for (int i = 0; i < n; i = goggml_next_matrix(i)) { rows += operands[i]->ne[1]; }
	GUARDED(goggml_tensor, ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_F32,
		rows, x->ne[1], x->ne[2], x->ne[3], operands, n, goggml_stream, GGML_N_TASKS_MAX, NULL))
}
