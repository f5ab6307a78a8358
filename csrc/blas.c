//go:build ignore

#include "blas.h"
#include "onednn.h"
#include "onemkl.h"
#include "pages.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The part of the CBLAS interface that is used.
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void (*goggml_sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
	const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

static struct {
	goggml_sgemm sgemm; // NULL when oneDNN is in use
	goggml_hgemm hgemm; // NULL when halves are not multiplied
	bool bf16, fast_bf16;
	char name[160]; // empty when there is no library
} goggml_blas;

// Takes the library at the path if it has one of the two interfaces.
static bool goggml_try_blas(const char *path) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		return false;
	}
	if (goggml_onednn_open(library)) {
		goggml_onednn_describe(goggml_blas.name, sizeof goggml_blas.name);
		goggml_blas.bf16 = goggml_onednn_bf16();
		goggml_blas.fast_bf16 = goggml_onednn_fast_bf16();
		return true;
	}
	goggml_blas.sgemm = (goggml_sgemm)dlsym(library, "cblas_sgemm");
	if (goggml_blas.sgemm == NULL) {
		dlclose(library); // a BLAS with the Fortran interface only
		return false;
	}
	snprintf(goggml_blas.name, sizeof goggml_blas.name, "%s", path);
	goggml_blas.hgemm = goggml_onemkl_open(library, goggml_blas.name, sizeof goggml_blas.name);
	// The threads are the caller's.
	void (*one_thread)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
	if (one_thread != NULL) {
		one_thread(1);
	}
	return true;
}

// Distributions number oneDNN's library by its minor version too.
static bool goggml_try_onednn(void) {
	char path[32];
	for (int minor = 30; minor >= 0; minor--) {
		snprintf(path, sizeof path, "libdnnl.so.3.%d", minor);
		if (goggml_try_blas(path)) {
			return true;
		}
	}
	return goggml_try_blas("libdnnl.so.3") || goggml_try_blas("libdnnl.3.dylib");
}

static bool goggml_try_cblas(void) {
	static const char *const paths[] = {
		"libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblas.so.3",
		"/System/Library/Frameworks/Accelerate.framework/Accelerate",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		if (goggml_try_blas(paths[i])) {
			return true;
		}
	}
	return false;
}

static void goggml_load_blas(void) {
	const char *chosen = getenv("GOGGML_BLAS");
	if (chosen != NULL && *chosen != '\0') {
		goggml_try_blas(chosen); // "none" is no library
		return;
	}
#if defined(__x86_64__)
	if (!goggml_try_onednn()) {
		goggml_try_cblas();
	}
#else
	// oneDNN's own code is for x86.
	goggml_try_cblas();
#endif
}

const char *goggml_blas_name(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, goggml_load_blas);
	return goggml_blas.name[0] ? goggml_blas.name : NULL;
}

bool goggml_blas_bf16(void) { return goggml_blas_name() != NULL && goggml_blas.bf16; }
bool goggml_blas_f16(void) { return goggml_blas_name() != NULL && goggml_blas.hgemm != NULL; }
bool goggml_blas_fast_bf16(void) { return goggml_blas_name() != NULL && goggml_blas.fast_bf16; }

void goggml_multiply(const struct goggml_gemm *g, const void *a, const void *b, float *out) {
	if (goggml_blas.sgemm == NULL) {
		goggml_onednn_multiply(g, a, b, out);
		return;
	}
	goggml_blas.sgemm(ROW_MAJOR, g->trans_a ? TRANS : NO_TRANS, g->trans_b ? TRANS : NO_TRANS,
		(int)g->n, (int)g->o, (int)g->r, 1, a, (int)g->lda, b, (int)g->ldb, g->add, out, (int)g->ldo);
}

void goggml_multiply_f16(const struct goggml_gemm *g, const uint16_t *a, const uint16_t *b, uint16_t *out) {
	enum { ONE = 0x3c00, ZERO = 0 };
	goggml_blas.hgemm(ROW_MAJOR, g->trans_a ? TRANS : NO_TRANS, g->trans_b ? TRANS : NO_TRANS,
		(int)g->n, (int)g->o, (int)g->r, ONE, a, (int)g->lda, b, (int)g->ldb, g->add ? ONE : ZERO, out, (int)g->ldo);
}

struct goggml_memory {
	struct { void *data; size_t size; } block[GOGGML_USES];
};

static pthread_key_t goggml_memory_key;

static void goggml_free_memory(void *data) {
	struct goggml_memory *memory = data;
	for (int i = 0; i < GOGGML_USES; i++) {
		free(memory->block[i].data);
	}
	free(memory);
}

static void goggml_make_memory_key(void) { pthread_key_create(&goggml_memory_key, goggml_free_memory); }

void *goggml_scratch(enum goggml_use use, size_t bytes) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, goggml_make_memory_key);
	struct goggml_memory *memory = pthread_getspecific(goggml_memory_key);
	if (memory == NULL) {
		memory = calloc(1, sizeof *memory);
		pthread_setspecific(goggml_memory_key, memory);
	}
	if (memory != NULL && memory->block[use].size < bytes) {
		size_t size = (bytes + 4095) / 4096 * 4096;
		free(memory->block[use].data);
		memory->block[use].data = aligned_alloc(4096, size);
		memory->block[use].size = memory->block[use].data == NULL ? 0 : size;
		goggml_huge_pages(memory->block[use].data, memory->block[use].size);
	}
	if (memory == NULL || memory->block[use].size < bytes) {
		GGML_ABORT("out of memory: %zu bytes of scratch", bytes);
	}
	return memory->block[use].data;
}
