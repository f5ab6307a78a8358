//go:build ignore

#include "tiled.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

// The part of the CBLAS interface that is used. ggml stores ne0 fastest, so a
// tensor [r, c] is an r × c matrix in column-major order.
enum { COLUMN_MAJOR = 102, NO_TRANS = 111, TRANS = 112 };
typedef void (*goggml_sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
	const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

static goggml_sgemm goggml_blas;
static const char *goggml_blas_name;

static bool goggml_try_blas(const char *name) {
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		return false;
	}
	goggml_blas = (goggml_sgemm)dlsym(library, "cblas_sgemm");
	if (goggml_blas == NULL) {
		return false; // a BLAS with the Fortran interface only
	}
	goggml_blas_name = name;
	// The threads are the caller's.
	void (*one_thread)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
	if (one_thread != NULL) {
		one_thread(1);
	}
	return true;
}

static void goggml_load_blas(void) {
	static const char *const names[] = {
		"libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblas.so.3",
		"/System/Library/Frameworks/Accelerate.framework/Accelerate",
	};
	const char *chosen = getenv("GOGGML_BLAS");
	if (chosen != NULL && *chosen != '\0') {
		goggml_try_blas(chosen); // "none" is no library
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names && !goggml_try_blas(names[i]); i++) {
	}
}

const char *goggml_tiled_library(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, goggml_load_blas);
	return goggml_blas_name;
}

enum { TILE_ROWS = 256 };

// Scratch of the thread; it lives as long as the thread pool.
static float *goggml_scratch(size_t n) {
	static _Thread_local float *scratch;
	static _Thread_local size_t size;
	if (n > size) {
		free(scratch);
		scratch = malloc(n * sizeof *scratch);
		size = scratch ? n : 0;
		if (scratch == NULL) {
			GGML_ABORT("out of memory: %zu bytes of scratch", n * sizeof *scratch);
		}
	}
	return scratch;
}

static int64_t goggml_min(int64_t a, int64_t b) { return a < b ? a : b; }

// The part of n that belongs to a worker, cut at multiples of unit.
static void goggml_share(int64_t n, int64_t unit, int worker, int workers, int64_t *from, int64_t *to) {
	int64_t units = (n + unit - 1) / unit;
	*from = goggml_min(n, units * worker / workers * unit);
	*to = goggml_min(n, units * (worker + 1) / workers * unit);
}

// One product of w [k, m], x [k, n] and y [m, n], of which one is computed
// from the others. Only w may have another type than F32.
struct goggml_product {
	enum ggml_type type;
	void *w;
	float *x, *y;
	int64_t k, m, n;
};

// Columns [k0, k1) of rows [m0, m1) of w as floats, with their row stride.
static const float *goggml_tile(const struct goggml_product *p, int64_t k0, int64_t k1, int64_t m0, int64_t m1, int *stride) {
	size_t row_size = ggml_row_size(p->type, p->k);
	const char *first = (const char *)p->w + m0 * row_size + ggml_row_size(p->type, k0);
	if (p->type == GGML_TYPE_F32) {
		*stride = (int)p->k;
		return (const float *)first;
	}
	int64_t k = k1 - k0;
	float *tile = goggml_scratch((size_t)k * TILE_ROWS);
	ggml_to_float_t to_float = ggml_get_type_traits(p->type)->to_float;
	for (int64_t m = m0; m < m1; m++) {
		to_float(first + (m - m0) * row_size, tile + (m - m0) * k, k);
	}
	*stride = (int)k;
	return tile;
}

// y = wᵀ·x, by rows of w.
static void goggml_tiled_y(const struct goggml_product *p, int worker, int workers) {
	int64_t from, to;
	goggml_share(p->m, 16, worker, workers, &from, &to);
	for (int64_t m0 = from; m0 < to; m0 += TILE_ROWS) {
		int64_t m1 = goggml_min(to, m0 + TILE_ROWS);
		int stride;
		const float *tile = goggml_tile(p, 0, p->k, m0, m1, &stride);
		goggml_blas(COLUMN_MAJOR, TRANS, NO_TRANS, (int)(m1 - m0), (int)p->n, (int)p->k, 1,
			tile, stride, p->x, (int)p->k, 0, p->y + m0, (int)p->m);
	}
}

// x = w·y, by columns of w, so that each is converted once; by columns of y
// when w has too few blocks to share.
static void goggml_tiled_x(const struct goggml_product *p, int worker, int workers) {
	int64_t block = ggml_blck_size(p->type), k0 = 0, k1 = p->k, n0 = 0, n1 = p->n;
	if (p->k / block >= workers) {
		goggml_share(p->k, block > 16 ? block : 16, worker, workers, &k0, &k1);
	} else {
		goggml_share(p->n, 1, worker, workers, &n0, &n1);
	}
	if (k0 == k1 || n0 == n1) {
		return;
	}
	for (int64_t m0 = 0; m0 < p->m; m0 += TILE_ROWS) {
		int64_t m1 = goggml_min(p->m, m0 + TILE_ROWS);
		int stride;
		const float *tile = goggml_tile(p, k0, k1, m0, m1, &stride);
		goggml_blas(COLUMN_MAJOR, NO_TRANS, NO_TRANS, (int)(k1 - k0), (int)(n1 - n0), (int)(m1 - m0), 1,
			tile, stride, p->y + n0 * p->m + m0, (int)p->m,
			m0 == 0 ? 0 : 1, p->x + n0 * p->k + k0, (int)p->k);
	}
}

// w = x·yᵀ, by the longer side of w.
static void goggml_tiled_w(const struct goggml_product *p, int worker, int workers) {
	int64_t k0 = 0, k1 = p->k, m0 = 0, m1 = p->m;
	if (p->k > p->m) {
		goggml_share(p->k, 16, worker, workers, &k0, &k1);
	} else {
		goggml_share(p->m, 16, worker, workers, &m0, &m1);
	}
	if (k0 == k1 || m0 == m1) {
		return;
	}
	goggml_blas(COLUMN_MAJOR, NO_TRANS, TRANS, (int)(k1 - k0), (int)(m1 - m0), (int)p->n, 1,
		p->x + k0, (int)p->k, p->y + m0, (int)p->m, 0, (float *)p->w + m0 * p->k + k0, (int)p->k);
}

typedef void (*goggml_part)(const struct goggml_product *p, int worker, int workers);

// Runs the product for each of the matrices stacked in dimensions 2 and 3: the
// workers share the matrices, or, when these are few, each of them.
static void goggml_run(goggml_part part, const struct ggml_tensor *w, const struct ggml_tensor *x,
		const struct ggml_tensor *y, int worker, int workers) {
	int64_t matrices = w->ne[2] * w->ne[3], from = 0, to = matrices;
	if (matrices >= workers) {
		goggml_share(matrices, 1, worker, workers, &from, &to);
		worker = 0, workers = 1;
	}
	for (int64_t i = from; i < to; i++) {
		struct goggml_product p = {
			.type = w->type,
			.w = (char *)w->data + i * w->nb[2],
			.x = (float *)((char *)x->data + i * x->nb[2]),
			.y = (float *)((char *)y->data + i * y->nb[2]),
			.k = w->ne[0], .m = w->ne[1], .n = x->ne[1],
		};
		part(&p, worker, workers);
	}
}

static void goggml_compute_y(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	goggml_run(goggml_tiled_y, dst->src[0], dst->src[1], dst, worker, workers);
}

static void goggml_compute_x(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	goggml_run(goggml_tiled_x, dst->src[0], dst, dst->src[1], worker, workers);
}

static void goggml_compute_w(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	goggml_run(goggml_tiled_w, dst, dst->src[0], dst->src[1], worker, workers);
}

#define GOGGML_TILED(fun, ne0, ne1, a, b) \
	if (arena == NULL) { return (goggml_tensor){0}; } \
	struct ggml_context *ctx; \
	struct ggml_tensor *operands[] = {a, b}; \
	GUARDED(goggml_tensor, (ctx = goggml_arena_room(arena, GOGGML_OP_ROOM), \
		ggml_custom_4d(ctx, GGML_TYPE_F32, ne0, ne1, (a)->ne[2], (a)->ne[3], operands, 2, fun, GGML_N_TASKS_MAX, NULL)))

goggml_tensor goggml_op_tiled_mul_mat(goggml_a arena, goggml_t w, goggml_t x) {
	GOGGML_TILED(goggml_compute_y, w->ne[1], x->ne[1], w, x)
}

goggml_tensor goggml_op_tiled_mul_mat_x(goggml_a arena, goggml_t w, goggml_t y) {
	GOGGML_TILED(goggml_compute_x, w->ne[0], y->ne[1], w, y)
}

goggml_tensor goggml_op_tiled_mul_mat_w(goggml_a arena, goggml_t x, goggml_t y) {
	GOGGML_TILED(goggml_compute_w, x->ne[0], y->ne[0], x, y)
}
