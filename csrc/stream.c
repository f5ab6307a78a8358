//go:build ignore

#include "stream.h"
#include "blas.h"
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

// n columns of k floats in the type with which w is multiplied, a distance apart.
static const char *goggml_stream_columns(enum ggml_type type, const float *x, int64_t k, int64_t n, size_t distance) {
	if (type == GGML_TYPE_F32) {
		return (const char *)x;
	}
	char *columns = goggml_scratch(GOGGML_ROW, (size_t)n * distance);
	for (int64_t i = 0; i < n; i++) {
		goggml_traits(type)->from_float(x + i * k, columns + (size_t)i * distance, k);
	}
	return columns;
}

// Elements of a piece of a row of k: pieces are equal but for the last, and made of blocks of any type.
static int64_t goggml_stream_piece(enum ggml_type type, int64_t k) {
	enum { BLOCK = 256 };
	int64_t pieces = goggml_cuts((int64_t)ggml_row_size(type, k), STREAM_PIECE);
	return goggml_cuts(goggml_cuts(k, BLOCK), goggml_max(pieces, 1)) * BLOCK;
}

// Rows [from, to) of one matrix.
static void goggml_stream_rows(struct ggml_tensor *dst, int64_t matrix, int64_t from, int64_t to) {
	const struct ggml_tensor *w = dst->src[0], *x = dst->src[1];
	const struct ggml_type_traits_cpu *traits = goggml_traits(w->type);
	int64_t k = w->ne[0], m = w->ne[1], n = x->ne[1], piece = goggml_stream_piece(w->type, k);
	size_t distance = ggml_row_size(traits->vec_dot_type, k);
	size_t step = ggml_row_size(w->type, piece), column_step = ggml_row_size(traits->vec_dot_type, piece);
	const char *columns = goggml_stream_columns(traits->vec_dot_type, goggml_matrix_of(x, matrix), k, n, distance);
	const char *row = (const char *)goggml_matrix_of(w, matrix) + (size_t)from * w->nb[1];
	float *y = (float *)goggml_matrix_of(dst, matrix);
	goggml_fetch(row, STREAM_AHEAD);
	for (int64_t o = from; o < to; o++, row += w->nb[1]) {
		const char *part = row, *column = columns;
		for (int64_t i = 0; i < n; i++) { y[i * m + o] = 0; }
		for (int64_t rest = k; rest > 0; rest -= piece, part += step, column += column_step) {
			goggml_fetch(part + STREAM_AHEAD, step);
			for (int64_t i = 0; i < n; i++) {
				float sum;
				traits->vec_dot((int)goggml_min(rest, piece), &sum, 0, part, 0, column + (size_t)i * distance, 0, 1);
				y[i * m + o] += sum;
			}
		}
	}
}

static void goggml_stream(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	int64_t m = dst->ne[0], rows = m * dst->ne[2] * dst->ne[3];
	int64_t from = rows * worker / workers, to = rows * (worker + 1) / workers;
	for (int64_t end; from < to; from = end) {
		int64_t matrix = from / m, first = matrix * m;
		end = goggml_min(to, first + m);
		goggml_stream_rows(dst, matrix, from - first, end - first);
	}
}

goggml_tensor goggml_op_stream_mul_mat(goggml_a arena, goggml_t w, goggml_t x) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {w, x};
	GUARDED(goggml_tensor, ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_F32,
		w->ne[1], x->ne[1], w->ne[2], w->ne[3], operands, 2, goggml_stream, GGML_N_TASKS_MAX, NULL))
}
