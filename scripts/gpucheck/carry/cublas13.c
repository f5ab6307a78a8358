// libcublas.so.12 for a machine with only cuBLAS 13: each function that ggml calls jumps to the function of the
// same name, which has the same parameters.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS(X) \
	X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasSetMathMode) X(cublasSetStream_v2) X(cublasSetWorkspace_v2) X(cublasGetStatusString) \
	X(cublasSgemm_v2) X(cublasSgemmBatched) X(cublasSgemmStridedBatched) X(cublasGemmEx) X(cublasGemmBatchedEx) X(cublasGemmStridedBatchedEx) \
	X(cublasStrsmBatched)

#define JUMP(f) \
	__attribute__((visibility("hidden"))) void *to_##f; \
	__asm__(".globl " #f "\n.type " #f ", @function\n" #f ":\n\tjmp *to_" #f "(%rip)\n");
FUNCTIONS(JUMP)

__attribute__((constructor)) static void find_functions(void) {
	void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL) {
		fprintf(stderr, "the stand-in for libcublas.so.12: %s\n", dlerror());
		exit(1);
	}
#define FIND(f) \
	to_##f = dlsym(library, #f); \
	if (to_##f == NULL) { \
		fprintf(stderr, "the stand-in for libcublas.so.12: libcublas.so.13 has no %s\n", #f); \
		exit(1); \
	}
	FUNCTIONS(FIND)
}
