#include "library.h"
#include "onednn.h"
#include "onemkl.h"

#include <dlfcn.h>
#include <stdio.h>

// The part of the CBLAS interface that is used.
enum { KERN_CBLAS_COL_MAJOR = 102, KERN_CBLAS_NO_TRANS = 111, KERN_CBLAS_TRANS = 112 };
typedef void (*kern_sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
	const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

static struct {
	kern_sgemm sgemm; // NULL if oneDNN is in use
	kern_hgemm hgemm; // NULL if F16 is not supported
	bool bf16, fast_bf16, amx;
	char name[160]; // empty if there is no library
} kern_library;

bool kern_library_load(const char *path, char *error, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		snprintf(error, size, "%s", dlerror());
		return false;
	}
	if (kern_onednn_open(library)) {
		kern_onednn_describe(kern_library.name, sizeof kern_library.name);
		kern_library.bf16 = kern_onednn_bf16();
		kern_library.fast_bf16 = kern_onednn_fast_bf16();
		kern_library.amx = kern_onednn_amx();
		return true;
	}
	kern_library.sgemm = (kern_sgemm)dlsym(library, "cblas_sgemm");
	if (kern_library.sgemm == NULL) {
		dlclose(library); // a BLAS with only the Fortran interface
		snprintf(error, size, "%s has neither the interface of oneDNN 3 nor CBLAS", path);
		return false;
	}
	snprintf(kern_library.name, sizeof kern_library.name, "%s", path);
	kern_library.hgemm = kern_onemkl_open(library, kern_library.name, sizeof kern_library.name);
	// The CPU backend has its own threads.
	void (*set_num_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
	if (set_num_threads != NULL) {
		set_num_threads(1);
	}
	return true;
}

static bool kern_library_try(const char *path) {
	char error[256];
	return kern_library_load(path, error, sizeof error);
}

// Distributions put oneDNN's minor version into the library's file name.
static bool kern_find_onednn(void) {
	char path[32];
	for (int minor = 30; minor >= 0; minor--) {
		snprintf(path, sizeof path, "libdnnl.so.3.%d", minor);
		if (kern_library_try(path)) {
			return true;
		}
	}
	return kern_library_try("libdnnl.so.3") || kern_library_try("libdnnl.3.dylib");
}

static bool kern_find_cblas(void) {
	static const char *const paths[] = {
		"libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblas.so.3",
		"/System/Library/Frameworks/Accelerate.framework/Accelerate",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		if (kern_library_try(paths[i])) {
			return true;
		}
	}
	return false;
}

bool kern_library_find(void) {
#if defined(__x86_64__)
	return kern_find_onednn() || kern_find_cblas();
#else
	return kern_find_cblas(); // oneDNN's own code is for x86
#endif
}

const char *kern_library_name(void) { return kern_library.name; }
bool kern_library_bf16(void) { return kern_library.bf16; }
bool kern_library_fast_bf16(void) { return kern_library.fast_bf16; }
bool kern_library_amx(void) { return kern_library.amx; }
bool kern_library_f16(void) { return kern_library.hgemm != NULL; }

static int kern_cblas_trans(bool trans) { return trans ? KERN_CBLAS_TRANS : KERN_CBLAS_NO_TRANS; }

void kern_library_gemm(const struct kern_gemm *g, const void *a, const void *b, float *c) {
	if (kern_library.sgemm == NULL) {
		kern_onednn_gemm(g, a, b, c);
		return;
	}
	kern_library.sgemm(KERN_CBLAS_COL_MAJOR, kern_cblas_trans(g->trans_a), kern_cblas_trans(g->trans_b),
		(int)g->m, (int)g->n, (int)g->k, 1, a, (int)g->lda, b, (int)g->ldb, g->accumulate, c, (int)g->ldc);
}

void kern_library_gemm_f16(const struct kern_gemm *g, const uint16_t *a, const uint16_t *b, uint16_t *c) {
	enum { ONE = 0x3c00, ZERO = 0 };
	kern_library.hgemm(KERN_CBLAS_COL_MAJOR, kern_cblas_trans(g->trans_a), kern_cblas_trans(g->trans_b),
		(int)g->m, (int)g->n, (int)g->k, ONE, a, (int)g->lda, b, (int)g->ldb, g->accumulate ? ONE : ZERO, c, (int)g->ldc);
}
