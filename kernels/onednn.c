#include "onednn.h"
#include "kern.h"
#include "scratch.h"
#include "signal_stack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Constants of version 3 of the interface.
enum { KERN_DNNL_BF16 = 2, KERN_DNNL_F32 = 3, KERN_DNNL_CPU = 1, KERN_DNNL_IN_ORDER = 1, KERN_DNNL_SCRATCHPAD_USER = 1, KERN_DNNL_SCRATCHPAD_MD = 136 };
enum { KERN_DNNL_SRC = 1, KERN_DNNL_DST = 17, KERN_DNNL_WEIGHTS = 33, KERN_DNNL_SCRATCHPAD = 80 };
enum { KERN_DNNL_AVX2 = 0x7, KERN_DNNL_AVX512 = 0x27, KERN_DNNL_AVX512_BF16 = 0xe7, KERN_DNNL_AMX = 0xfef };

typedef struct { int major, minor, patch; } kern_dnnl_version;
typedef int64_t kern_dnnl_dims[12];
typedef struct { int argument; void *memory; } kern_dnnl_argument;

#define KERN_DNNL_FUNCTIONS(F) \
	F(int, engine_create, (void **engine, int kind, size_t index)) \
	F(int, stream_create, (void **stream, void *engine, unsigned flags)) \
	F(int, stream_destroy, (void *stream)) \
	F(int, memory_desc_create_with_strides, (void **desc, int n, const kern_dnnl_dims dims, int type, const kern_dnnl_dims strides)) \
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
	F(int, primitive_execute, (const void *primitive, void *stream, int n, const kern_dnnl_argument *arguments)) \
	F(int, primitive_destroy, (void *primitive)) \
	F(int, sgemm, (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)) \
	F(int, get_effective_cpu_isa, (void)) \
	F(const kern_dnnl_version *, version, (void))

static struct {
#define F(result, name, params) result (*name) params;
	KERN_DNNL_FUNCTIONS(F)
#undef F
	void *engine;
	bool amx;
	// From oneDNN's OpenMP library; NULL if it uses another thread library.
	int (*get_threads)(void);
	void (*set_threads)(int);
} kern_dnnl;

static bool kern_onednn_has(int isa) { return (kern_dnnl.get_effective_cpu_isa() & isa) == isa; }

bool kern_onednn_open(void *library) {
#define F(result, name, params) \
	kern_dnnl.name = (result (*) params)dlsym(library, "dnnl_" #name); \
	if (kern_dnnl.name == NULL) { return false; }
	KERN_DNNL_FUNCTIONS(F)
#undef F
	kern_dnnl.get_threads = (int (*)(void))dlsym(library, "omp_get_max_threads");
	kern_dnnl.set_threads = (void (*)(int))dlsym(library, "omp_set_num_threads");
	if (kern_dnnl.version()->major != 3 || kern_dnnl.engine_create(&kern_dnnl.engine, KERN_DNNL_CPU, 0) != 0) { return false; }
	kern_dnnl.amx = kern_onednn_has(KERN_DNNL_AMX);
	return true;
}

bool kern_onednn_bf16(void) { return kern_onednn_has(KERN_DNNL_AVX512_BF16); }

// On Intel, an AVX512-BF16 instruction takes four times as long as an F32 multiplication, for twice
// the products.
bool kern_onednn_fast_bf16(void) {
#if defined(__x86_64__)
	return kern_dnnl.amx || kern_onednn_bf16() && !__builtin_cpu_is("intel");
#else
	return false;
#endif
}

bool kern_onednn_amx(void) { return kern_dnnl.amx; }

void kern_onednn_describe(char *text, size_t size) {
	const kern_dnnl_version *v = kern_dnnl.version();
	const char *isa = kern_dnnl.amx ? "AMX" : kern_onednn_has(KERN_DNNL_AVX512_BF16) ? "AVX512-BF16" :
		kern_onednn_has(KERN_DNNL_AVX512) ? "AVX-512" : kern_onednn_has(KERN_DNNL_AVX2) ? "AVX2" : "the least instructions";
	snprintf(text, size, "oneDNN %d.%d.%d with %s", v->major, v->minor, v->patch, isa);
}

static void kern_onednn_check(int status, const char *what) {
	if (status != 0) {
		GGML_ABORT("oneDNN failed with status %d: %s", status, what);
	}
}

#define KERN_CHECKED(call) kern_onednn_check(kern_dnnl.call, #call)

// A product ready to run on one thread.
struct kern_matmul {
	struct kern_gemm shape;
	void *primitive, *src, *weights, *dst, *scratchpad;
	size_t scratchpad_size;
};

// The products that a thread ran last. An op alternates between few shapes, except products of
// experts, which have any number of columns; oneDNN caches the code of the others.
enum { KERN_MATMULS = 64 };
struct kern_matmuls {
	struct kern_matmul list[KERN_MATMULS];
	int next;
	void *stream;
};

static pthread_key_t kern_matmuls_key;

static void kern_free_matmul(struct kern_matmul *m) {
	if (m->primitive != NULL) {
		kern_dnnl.primitive_destroy(m->primitive);
		kern_dnnl.memory_destroy(m->src);
		kern_dnnl.memory_destroy(m->weights);
		kern_dnnl.memory_destroy(m->dst);
		kern_dnnl.memory_destroy(m->scratchpad);
	}
	memset(m, 0, sizeof *m);
}

static void kern_free_matmuls(void *data) {
	struct kern_matmuls *all = data;
	for (int i = 0; i < KERN_MATMULS; i++) {
		kern_free_matmul(&all->list[i]);
	}
	kern_dnnl.stream_destroy(all->stream);
	free(all);
}

static void kern_make_matmuls_key(void) { pthread_key_create(&kern_matmuls_key, kern_free_matmuls); }

static struct kern_matmuls *kern_thread_matmuls(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_make_matmuls_key);
	struct kern_matmuls *all = pthread_getspecific(kern_matmuls_key);
	if (all != NULL) {
		return all;
	}
	all = calloc(1, sizeof *all);
	if (all == NULL) {
		GGML_ABORT("out of memory");
	}
	KERN_CHECKED(stream_create(&all->stream, kern_dnnl.engine, KERN_DNNL_IN_ORDER));
	pthread_setspecific(kern_matmuls_key, all);
	return all;
}

static void *kern_dnnl_matrix(int64_t rows, int64_t columns, int type, int64_t row_stride, int64_t column_stride) {
	void *desc;
	KERN_CHECKED(memory_desc_create_with_strides(&desc, 2, (kern_dnnl_dims){rows, columns}, type,
		(kern_dnnl_dims){row_stride, column_stride}));
	return desc;
}

static void *kern_matmul_attr(bool add) {
	void *attr, *ops;
	KERN_CHECKED(primitive_attr_create(&attr));
	KERN_CHECKED(primitive_attr_set_scratchpad_mode(attr, KERN_DNNL_SCRATCHPAD_USER));
	if (add) {
		KERN_CHECKED(post_ops_create(&ops));
		KERN_CHECKED(post_ops_append_sum(ops, 1, 0, 0));
		KERN_CHECKED(primitive_attr_set_post_ops(attr, ops));
		kern_dnnl.post_ops_destroy(ops);
	}
	return attr;
}

// oneDNN's matrices are row-major: it computes the transposed product, with B as the source and A
// as the weights.
static void kern_make_matmul(struct kern_matmul *m, const struct kern_gemm *g) {
	int type = g->bf16 ? KERN_DNNL_BF16 : KERN_DNNL_F32;
	void *src = kern_dnnl_matrix(g->n, g->k, type, g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1);
	void *weights = kern_dnnl_matrix(g->k, g->m, type, g->trans_a ? 1 : g->lda, g->trans_a ? g->lda : 1);
	void *dst = kern_dnnl_matrix(g->n, g->m, KERN_DNNL_F32, g->ldc, 1);
	void *attr = kern_matmul_attr(g->accumulate), *desc;
	KERN_CHECKED(matmul_primitive_desc_create(&desc, kern_dnnl.engine, src, weights, NULL, dst, attr));
	KERN_CHECKED(primitive_create(&m->primitive, desc));
	const void *scratchpad = kern_dnnl.primitive_desc_query_md(desc, KERN_DNNL_SCRATCHPAD_MD, 0);
	m->scratchpad_size = kern_dnnl.memory_desc_get_size(scratchpad);
	KERN_CHECKED(memory_create(&m->src, src, kern_dnnl.engine, NULL));
	KERN_CHECKED(memory_create(&m->weights, weights, kern_dnnl.engine, NULL));
	KERN_CHECKED(memory_create(&m->dst, dst, kern_dnnl.engine, NULL));
	KERN_CHECKED(memory_create(&m->scratchpad, scratchpad, kern_dnnl.engine, NULL));
	m->shape = *g;
	kern_dnnl.primitive_desc_destroy(desc);
	kern_dnnl.primitive_attr_destroy(attr);
	kern_dnnl.memory_desc_destroy(dst);
	kern_dnnl.memory_desc_destroy(weights);
	kern_dnnl.memory_desc_destroy(src);
}

static bool kern_same_gemm(const struct kern_gemm *a, const struct kern_gemm *b) {
	return a->bf16 == b->bf16 && a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->accumulate == b->accumulate &&
		a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc;
}

static struct kern_matmul *kern_find_matmul(struct kern_matmuls *all, const struct kern_gemm *g) {
	for (int i = 0; i < KERN_MATMULS; i++) {
		if (all->list[i].primitive != NULL && kern_same_gemm(&all->list[i].shape, g)) {
			return &all->list[i];
		}
	}
	struct kern_matmul *m = &all->list[all->next];
	all->next = (all->next + 1) % KERN_MATMULS;
	kern_free_matmul(m);
	kern_make_matmul(m, g);
	return m;
}

// oneDNN leaves its thread's AMX tiles without a configuration. ggml's own kernels configure them
// once per thread, and would crash or compute wrong results afterwards: so the configuration is
// saved and restored.
static void kern_execute(const struct kern_matmul *m, void *stream, int n, const kern_dnnl_argument *arguments) {
#if defined(__x86_64__)
	if (kern_dnnl.amx) {
		struct { char bytes[64]; } tiles;
		__asm__ volatile("sttilecfg %0" : "=m"(tiles));
		KERN_CHECKED(primitive_execute(m->primitive, stream, n, arguments));
		__asm__ volatile("ldtilecfg %0" : : "m"(tiles));
		return;
	}
#endif
	KERN_CHECKED(primitive_execute(m->primitive, stream, n, arguments));
}

static void kern_run_matmul(const struct kern_gemm *g, const void *a, const void *b, float *c) {
	struct kern_matmuls *all = kern_thread_matmuls();
	struct kern_matmul *m = kern_find_matmul(all, g);
	KERN_CHECKED(memory_set_data_handle(m->src, (void *)b));
	KERN_CHECKED(memory_set_data_handle(m->weights, (void *)a));
	KERN_CHECKED(memory_set_data_handle(m->dst, c));
	KERN_CHECKED(memory_set_data_handle(m->scratchpad, kern_scratch(KERN_SCRATCH_LIBRARY, m->scratchpad_size)));
	const kern_dnnl_argument arguments[] = {
		{KERN_DNNL_SRC, m->src}, {KERN_DNNL_WEIGHTS, m->weights}, {KERN_DNNL_DST, m->dst}, {KERN_DNNL_SCRATCHPAD, m->scratchpad},
	};
	kern_execute(m, all->stream, 4, arguments);
}

// oneDNN 3.7 ignores the leading dimension of two kinds of vectors in BF16 products, and reads the
// gaps as elements: B [k, 1] stored transposed, and C [1, n]. B is packed before the product, and C
// is unpacked after it.

static void kern_run_packed_b(const struct kern_gemm *g, const void *a, const uint16_t *b, float *c) {
	uint16_t *column = kern_scratch(KERN_SCRATCH_ROW, g->k * sizeof *column);
	for (int64_t i = 0; i < g->k; i++) {
		column[i] = b[i * g->ldb];
	}
	struct kern_gemm packed = *g;
	packed.trans_b = false;
	packed.ldb = g->k;
	packed.ldc = g->m;
	kern_run_matmul(&packed, a, column, c);
}

static void kern_run_packed_c(const struct kern_gemm *g, const void *a, const void *b, float *c) {
	float *row = kern_scratch(KERN_SCRATCH_ROW, g->n * sizeof *row);
	struct kern_gemm packed = *g;
	packed.accumulate = false;
	packed.ldc = 1;
	kern_run_matmul(&packed, a, b, row);
	for (int64_t i = 0; i < g->n; i++) {
		c[i * g->ldc] = g->accumulate ? c[i * g->ldc] + row[i] : row[i];
	}
}

static void kern_run_sgemm(const struct kern_gemm *g, const float *a, const float *b, float *c) {
	kern_use_signal_stack();
	KERN_CHECKED(sgemm(g->trans_b ? 'T' : 'N', g->trans_a ? 'T' : 'N', g->n, g->m, g->k, 1, b, g->ldb, a, g->lda,
		g->accumulate, c, g->ldc));
}

void kern_onednn_gemm(const struct kern_gemm *g, const void *a, const void *b, float *c) {
	// oneDNN would start its own OpenMP threads, and plan for their number.
	int threads = 1;
	if (kern_dnnl.set_threads != NULL && kern_dnnl.get_threads != NULL) {
		threads = kern_dnnl.get_threads();
		kern_dnnl.set_threads(1);
	}
	if (!g->bf16) {
		kern_run_sgemm(g, a, b, c);
	} else if (g->n == 1 && g->trans_b) {
		kern_run_packed_b(g, a, b, c);
	} else if (g->m == 1 && g->ldc != 1) {
		kern_run_packed_c(g, a, b, c);
	} else {
		kern_run_matmul(g, a, b, c);
	}
	if (threads != 1) {
		kern_dnnl.set_threads(threads);
	}
}
