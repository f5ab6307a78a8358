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

static void goggml_load_blas(void) {
	static const char *const names[] = {
		"libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblas.so.3",
		"/System/Library/Frameworks/Accelerate.framework/Accelerate",
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (library == NULL) {
			continue;
		}
		goggml_blas = (goggml_sgemm)dlsym(library, "cblas_sgemm");
		if (goggml_blas == NULL) {
			continue; // a BLAS with the Fortran interface only
		}
		goggml_blas_name = names[i];
		// The threads are the caller's.
		void (*one_thread)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
		if (one_thread != NULL) {
			one_thread(1);
		}
		return;
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

// Columns [k0, k1) of rows [m0, m1) of w as floats, with their row stride.
static const float *goggml_tile(const struct ggml_tensor *w, int64_t k0, int64_t k1, int64_t m0, int64_t m1, int *stride) {
	const char *first = (const char *)w->data + m0 * w->nb[1] + ggml_row_size(w->type, k0);
	if (w->type == GGML_TYPE_F32) {
		*stride = (int)(w->nb[1] / sizeof(float));
		return (const float *)first;
	}
	int64_t k = k1 - k0;
	float *tile = goggml_scratch((size_t)k * TILE_ROWS);
	ggml_to_float_t to_float = ggml_get_type_traits(w->type)->to_float;
	for (int64_t m = m0; m < m1; m++) {
		to_float(first + (m - m0) * w->nb[1], tile + (m - m0) * k, k);
	}
	*stride = (int)k;
	return tile;
}

static int64_t goggml_min(int64_t a, int64_t b) { return a < b ? a : b; }

// The part of n that belongs to the thread, cut at multiples of unit.
static void goggml_share(int64_t n, int64_t unit, int thread, int threads, int64_t *from, int64_t *to) {
	int64_t units = (n + unit - 1) / unit;
	*from = goggml_min(n, units * thread / threads * unit);
	*to = goggml_min(n, units * (thread + 1) / threads * unit);
}

static void goggml_tiled_y(struct ggml_tensor *dst, int thread, int threads, void *data) {
	(void)data;
	const struct ggml_tensor *w = dst->src[0], *x = dst->src[1];
	int64_t k = w->ne[0], n = ggml_nrows(x), from, to;
	int m = (int)w->ne[1];
	goggml_share(w->ne[1], 16, thread, threads, &from, &to);
	for (int64_t m0 = from; m0 < to; m0 += TILE_ROWS) {
		int64_t m1 = goggml_min(to, m0 + TILE_ROWS);
		int stride;
		const float *tile = goggml_tile(w, 0, k, m0, m1, &stride);
		goggml_blas(COLUMN_MAJOR, TRANS, NO_TRANS, (int)(m1 - m0), (int)n, (int)k, 1,
			tile, stride, x->data, (int)k, 0, (float *)dst->data + m0, m);
	}
}

static void goggml_tiled_x(struct ggml_tensor *dst, int thread, int threads, void *data) {
	(void)data;
	const struct ggml_tensor *w = dst->src[0], *y = dst->src[1];
	int64_t m = w->ne[1], n = ggml_nrows(y), k0, k1, n0 = 0, n1 = n;
	int k = (int)w->ne[0];
	int64_t block = ggml_blck_size(w->type);
	// By columns of w, so that each is converted once; by rows of y when w has
	// too few blocks to share.
	if (w->ne[0] / block >= threads) {
		goggml_share(w->ne[0], block > 16 ? block : 16, thread, threads, &k0, &k1);
	} else {
		k0 = 0, k1 = w->ne[0];
		goggml_share(n, 1, thread, threads, &n0, &n1);
	}
	if (k0 == k1 || n0 == n1) {
		return;
	}
	for (int64_t m0 = 0; m0 < m; m0 += TILE_ROWS) {
		int64_t m1 = goggml_min(m, m0 + TILE_ROWS);
		int stride;
		const float *tile = goggml_tile(w, k0, k1, m0, m1, &stride);
		goggml_blas(COLUMN_MAJOR, NO_TRANS, NO_TRANS, (int)(k1 - k0), (int)(n1 - n0), (int)(m1 - m0), 1,
			tile, stride, (const float *)y->data + n0 * m + m0, (int)m,
			m0 == 0 ? 0 : 1, (float *)dst->data + n0 * k + k0, k);
	}
}

static void goggml_tiled_w(struct ggml_tensor *dst, int thread, int threads, void *data) {
	(void)data;
	const struct ggml_tensor *x = dst->src[0], *y = dst->src[1];
	int64_t n = ggml_nrows(x), from, to;
	int k = (int)x->ne[0], m = (int)y->ne[0];
	if (k > m) {
		goggml_share(k, 16, thread, threads, &from, &to);
		if (from < to) {
			goggml_blas(COLUMN_MAJOR, NO_TRANS, TRANS, (int)(to - from), m, (int)n, 1,
				(const float *)x->data + from, k, y->data, m, 0, (float *)dst->data + from, k);
		}
		return;
	}
	goggml_share(m, 16, thread, threads, &from, &to);
	if (from < to) {
		goggml_blas(COLUMN_MAJOR, NO_TRANS, TRANS, k, (int)(to - from), (int)n, 1,
			x->data, k, (const float *)y->data + from, m, 0, (float *)dst->data + from * k, k);
	}
}

#define GOGGML_TILED(fun, ne0, ne1, a, b) \
	if (arena == NULL) { return (goggml_tensor){0}; } \
	struct ggml_context *ctx; \
	struct ggml_tensor *operands[] = {a, b}; \
	GUARDED(goggml_tensor, (ctx = goggml_arena_room(arena, GOGGML_OP_ROOM), \
		ggml_custom_4d(ctx, GGML_TYPE_F32, ne0, ne1, 1, 1, operands, 2, fun, GGML_N_TASKS_MAX, NULL)))

goggml_tensor goggml_op_tiled_mul_mat(goggml_a arena, goggml_t w, goggml_t x) {
	GOGGML_TILED(goggml_tiled_y, w->ne[1], ggml_nrows(x), w, x)
}

goggml_tensor goggml_op_tiled_mul_mat_x(goggml_a arena, goggml_t w, goggml_t y) {
	GOGGML_TILED(goggml_tiled_x, w->ne[0], ggml_nrows(y), w, y)
}

goggml_tensor goggml_op_tiled_mul_mat_w(goggml_a arena, goggml_t x, goggml_t y) {
	GOGGML_TILED(goggml_tiled_w, x->ne[0], y->ne[0], x, y)
}
