//go:build ignore

#include "onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Constants of version 3 of the interface.
enum { DNNL_BF16 = 2, DNNL_F32 = 3, DNNL_CPU = 1, DNNL_IN_ORDER = 1, DNNL_SCRATCHPAD_USER = 1, DNNL_SCRATCHPAD_MD = 136 };
enum { DNNL_SRC = 1, DNNL_DST = 17, DNNL_WEIGHTS = 33, DNNL_SCRATCHPAD = 80 };
enum { DNNL_AVX2 = 0x7, DNNL_AVX512 = 0x27, DNNL_AVX512_BF16 = 0xe7, DNNL_AMX = 0xfef };

typedef struct { int major, minor, patch; } goggml_dnnl_version;
typedef int64_t goggml_dnnl_dims[12];
typedef struct { int argument; void *memory; } goggml_dnnl_argument;

#define DNNL_FUNCTIONS(F) \
	F(int, engine_create, (void **engine, int kind, size_t index)) \
	F(int, stream_create, (void **stream, void *engine, unsigned flags)) \
	F(int, stream_destroy, (void *stream)) \
	F(int, memory_desc_create_with_strides, (void **desc, int n, const goggml_dnnl_dims dims, int type, const goggml_dnnl_dims strides)) \
	F(int, memory_desc_destroy, (void *desc)) \
	F(size_t, memory_desc_get_size, (const void *desc)) \
	F(int, memory_create, (void **memory, const void *desc, void *engine, void *data)) \
	F(int, memory_set_data_handle, (void *memory, void *data)) \
	F(int, memory_destroy, (void *memory)) \
	F(int, post_ops_create, (void **ops)) \
	F(int, post_ops_append_sum, (void *ops, float scale, int32_t zero, int type)) \
	F(int, post_ops_destroy, (void *ops)) \
	F(int, primitive_attr_create, (void **attr)) \
	F(int, primitive_attr_set_scratchpad_mode, (void *attr, int mode)) \
	F(int, primitive_attr_set_post_ops, (void *attr, const void *ops)) \
	F(int, primitive_attr_destroy, (void *attr)) \
	F(int, matmul_primitive_desc_create, (void **desc, void *engine, const void *src, const void *weights, const void *bias, const void *dst, const void *attr)) \
	F(const void *, primitive_desc_query_md, (const void *desc, int what, int index)) \
	F(int, primitive_desc_destroy, (void *desc)) \
	F(int, primitive_create, (void **primitive, const void *desc)) \
	F(int, primitive_execute, (const void *primitive, void *stream, int n, const goggml_dnnl_argument *arguments)) \
	F(int, primitive_destroy, (void *primitive)) \
	F(int, sgemm, (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)) \
	F(int, get_effective_cpu_isa, (void)) \
	F(const goggml_dnnl_version *, version, (void))

static struct {
#define F(result, name, params) result (*name) params;
	DNNL_FUNCTIONS(F)
#undef F
	void *engine;
	bool amx;
	// Of the OpenMP that oneDNN uses; NULL when it uses something else.
	int (*get_threads)(void);
	void (*set_threads)(int);
} dnnl;

static bool goggml_onednn_has(int isa) { return (dnnl.get_effective_cpu_isa() & isa) == isa; }

bool goggml_onednn_open(void *library) {
#define F(result, name, params) \
	dnnl.name = (result (*) params)dlsym(library, "dnnl_" #name); \
	if (dnnl.name == NULL) { return false; }
	DNNL_FUNCTIONS(F)
#undef F
	dnnl.get_threads = (int (*)(void))dlsym(library, "omp_get_max_threads");
	dnnl.set_threads = (void (*)(int))dlsym(library, "omp_set_num_threads");
	if (dnnl.version()->major != 3 || dnnl.engine_create(&dnnl.engine, DNNL_CPU, 0) != 0) { return false; }
	dnnl.amx = goggml_onednn_has(DNNL_AMX);
	return true;
}

bool goggml_onednn_bf16(void) { return goggml_onednn_has(DNNL_AVX512_BF16); }

// Intel's AVX512-BF16 takes four times as long as a multiplication in F32, for twice the products.
bool goggml_onednn_fast_bf16(void) {
#if defined(__x86_64__)
	return dnnl.amx || goggml_onednn_bf16() && !__builtin_cpu_is("intel");
#else
	return false;
#endif
}

void goggml_onednn_describe(char *text, size_t size) {
	const goggml_dnnl_version *v = dnnl.version();
	const char *isa = dnnl.amx ? "AMX" : goggml_onednn_has(DNNL_AVX512_BF16) ? "AVX512-BF16" :
		goggml_onednn_has(DNNL_AVX512) ? "AVX-512" : goggml_onednn_has(DNNL_AVX2) ? "AVX2" : "the least instructions";
	snprintf(text, size, "oneDNN %d.%d.%d with %s", v->major, v->minor, v->patch, isa);
}

static void goggml_onednn_check(int status, const char *what) {
	if (status != 0) {
		GGML_ABORT("oneDNN failed with status %d: %s", status, what);
	}
}

#define CHECKED(call) goggml_onednn_check(dnnl.call, #call)

// A product that is ready to run, of one thread.
struct goggml_matmul {
	struct goggml_gemm shape;
	void *primitive, *src, *weights, *dst, *scratchpad;
	size_t scratchpad_size;
};

// The products that a thread ran last. An op alternates between few shapes, and
// oneDNN itself keeps the code of the others.
enum { MATMULS = 8 };
struct goggml_matmuls {
	struct goggml_matmul list[MATMULS];
	int next;
	void *stream;
};

static pthread_key_t goggml_matmuls_key;

static void goggml_free_matmul(struct goggml_matmul *m) {
	if (m->primitive != NULL) {
		dnnl.primitive_destroy(m->primitive);
		dnnl.memory_destroy(m->src);
		dnnl.memory_destroy(m->weights);
		dnnl.memory_destroy(m->dst);
		dnnl.memory_destroy(m->scratchpad);
	}
	memset(m, 0, sizeof *m);
}

static void goggml_free_matmuls(void *data) {
	struct goggml_matmuls *all = data;
	for (int i = 0; i < MATMULS; i++) {
		goggml_free_matmul(&all->list[i]);
	}
	dnnl.stream_destroy(all->stream);
	free(all);
}

static void goggml_make_matmuls_key(void) { pthread_key_create(&goggml_matmuls_key, goggml_free_matmuls); }

static struct goggml_matmuls *goggml_thread_matmuls(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, goggml_make_matmuls_key);
	struct goggml_matmuls *all = pthread_getspecific(goggml_matmuls_key);
	if (all != NULL) {
		return all;
	}
	all = calloc(1, sizeof *all);
	if (all == NULL) {
		GGML_ABORT("out of memory");
	}
	CHECKED(stream_create(&all->stream, dnnl.engine, DNNL_IN_ORDER));
	pthread_setspecific(goggml_matmuls_key, all);
	return all;
}

static void *goggml_dnnl_matrix(int64_t rows, int64_t columns, int type, int64_t row_stride, int64_t column_stride) {
	void *desc;
	CHECKED(memory_desc_create_with_strides(&desc, 2, (goggml_dnnl_dims){rows, columns}, type,
		(goggml_dnnl_dims){row_stride, column_stride}));
	return desc;
}

static void *goggml_matmul_attr(bool add) {
	void *attr, *ops;
	CHECKED(primitive_attr_create(&attr));
	CHECKED(primitive_attr_set_scratchpad_mode(attr, DNNL_SCRATCHPAD_USER));
	if (add) {
		CHECKED(post_ops_create(&ops));
		CHECKED(post_ops_append_sum(ops, 1, 0, 0));
		CHECKED(primitive_attr_set_post_ops(attr, ops));
		dnnl.post_ops_destroy(ops);
	}
	return attr;
}

static void goggml_make_matmul(struct goggml_matmul *m, const struct goggml_gemm *g) {
	int type = g->bf16 ? DNNL_BF16 : DNNL_F32;
	void *src = goggml_dnnl_matrix(g->n, g->r, type, g->trans_a ? 1 : g->lda, g->trans_a ? g->lda : 1);
	void *weights = goggml_dnnl_matrix(g->r, g->o, type, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1);
	void *dst = goggml_dnnl_matrix(g->n, g->o, DNNL_F32, g->ldo, 1);
	void *attr = goggml_matmul_attr(g->add), *desc;
	CHECKED(matmul_primitive_desc_create(&desc, dnnl.engine, src, weights, NULL, dst, attr));
	CHECKED(primitive_create(&m->primitive, desc));
	const void *scratchpad = dnnl.primitive_desc_query_md(desc, DNNL_SCRATCHPAD_MD, 0);
	m->scratchpad_size = dnnl.memory_desc_get_size(scratchpad);
	CHECKED(memory_create(&m->src, src, dnnl.engine, NULL));
	CHECKED(memory_create(&m->weights, weights, dnnl.engine, NULL));
	CHECKED(memory_create(&m->dst, dst, dnnl.engine, NULL));
	CHECKED(memory_create(&m->scratchpad, scratchpad, dnnl.engine, NULL));
	m->shape = *g;
	dnnl.primitive_desc_destroy(desc);
	dnnl.primitive_attr_destroy(attr);
	dnnl.memory_desc_destroy(dst);
	dnnl.memory_desc_destroy(weights);
	dnnl.memory_desc_destroy(src);
}

static bool goggml_same_gemm(const struct goggml_gemm *a, const struct goggml_gemm *b) {
	return a->bf16 == b->bf16 && a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->add == b->add &&
		a->n == b->n && a->o == b->o && a->r == b->r && a->lda == b->lda && a->ldb == b->ldb && a->ldo == b->ldo;
}

static struct goggml_matmul *goggml_find_matmul(struct goggml_matmuls *all, const struct goggml_gemm *g) {
	for (int i = 0; i < MATMULS; i++) {
		if (all->list[i].primitive != NULL && goggml_same_gemm(&all->list[i].shape, g)) {
			return &all->list[i];
		}
	}
	struct goggml_matmul *m = &all->list[all->next];
	all->next = (all->next + 1) % MATMULS;
	goggml_free_matmul(m);
	goggml_make_matmul(m, g);
	return m;
}

// With AMX a product leaves its thread's tiles without a configuration. ggml's own products on tiles make theirs once
// a thread, and would die or be wrong after it: so what was there is put back.
static void goggml_execute(const struct goggml_matmul *m, void *stream, int n, const goggml_dnnl_argument *arguments) {
#if defined(__x86_64__)
	if (dnnl.amx) {
		struct { char bytes[64]; } tiles;
		__asm__ volatile("sttilecfg %0" : "=m"(tiles));
		CHECKED(primitive_execute(m->primitive, stream, n, arguments));
		__asm__ volatile("ldtilecfg %0" : : "m"(tiles));
		return;
	}
#endif
	CHECKED(primitive_execute(m->primitive, stream, n, arguments));
}

static void goggml_run_matmul(const struct goggml_gemm *g, const void *a, const void *b, float *out) {
	struct goggml_matmuls *all = goggml_thread_matmuls();
	struct goggml_matmul *m = goggml_find_matmul(all, g);
	CHECKED(memory_set_data_handle(m->src, (void *)a));
	CHECKED(memory_set_data_handle(m->weights, (void *)b));
	CHECKED(memory_set_data_handle(m->dst, out));
	CHECKED(memory_set_data_handle(m->scratchpad, goggml_scratch(GOGGML_SCRATCHPAD, m->scratchpad_size)));
	const goggml_dnnl_argument arguments[] = {
		{DNNL_SRC, m->src}, {DNNL_WEIGHTS, m->weights}, {DNNL_DST, m->dst}, {DNNL_SCRATCHPAD, m->scratchpad},
	};
	goggml_execute(m, all->stream, 4, arguments);
}

// One column with a stride is written as if it had none (oneDNN 3.7), so it is
// computed apart.
static void goggml_run_column(const struct goggml_gemm *g, const void *a, const void *b, float *out) {
	float *column = goggml_scratch(GOGGML_ROW, g->n * sizeof *column);
	struct goggml_gemm dense = *g;
	dense.add = false;
	dense.ldo = 1;
	goggml_run_matmul(&dense, a, b, column);
	for (int64_t i = 0; i < g->n; i++) {
		out[i * g->ldo] = g->add ? out[i * g->ldo] + column[i] : column[i];
	}
}

static void goggml_run_sgemm(const struct goggml_gemm *g, const float *a, const float *b, float *out) {
	CHECKED(sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->n, g->o, g->r, 1, a, g->lda, b, g->ldb, g->add, out, g->ldo));
}

void goggml_onednn_multiply(const struct goggml_gemm *g, const void *a, const void *b, float *out) {
	// oneDNN would start OpenMP threads of its own, and plan for their number.
	int threads = 1;
	if (dnnl.set_threads != NULL && dnnl.get_threads != NULL) {
		threads = dnnl.get_threads();
		dnnl.set_threads(1);
	}
	if (!g->bf16) {
		goggml_run_sgemm(g, a, b, out);
	} else if (g->o == 1 && g->ldo != 1) {
		goggml_run_column(g, a, b, out);
	} else {
		goggml_run_matmul(g, a, b, out);
	}
	if (threads != 1) {
		dnnl.set_threads(threads);
	}
}
