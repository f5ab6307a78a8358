// libcublas.so.12: records products without computing them.
#include "trace.h"

#include <stddef.h>

typedef void *handle_t;

// Types and compute types, by CUDA 12's numbers.
static const char *type_name(int type) {
	switch (type) {
	case 0: return "F32";
	case 2: return "F16";
	case 14: return "BF16";
	default: return "?";
	}
}

static const char *compute_name(int compute) {
	switch (compute) {
	case 64: return "F16";
	case 68: return "F32";
	case 74: return "F32_FAST_F16";
	case 75: return "F32_FAST_BF16";
	case 77: return "F32_FAST_TF32";
	default: return "?";
	}
}

// All products have A [m, k], B [k, n] and C [m, n]; count is the batch size.
static int product(const char *function, int m, int n, int k, int a, int b, int c, int compute, int count) {
	standin_trace("gemm %s %d %d %d %s %s %s %s %d\n", function, m, n, k, type_name(a), type_name(b), type_name(c), compute_name(compute), count);
	return 0;
}

int cublasCreate_v2(handle_t *handle) {
	static int any;
	*handle = &any;
	return 0;
}

int cublasDestroy_v2(handle_t handle) {
	(void)handle;
	return 0;
}

int cublasSetMathMode(handle_t handle, int mode) {
	(void)handle, (void)mode;
	return 0;
}

int cublasSetStream_v2(handle_t handle, void *stream) {
	(void)handle, (void)stream;
	return 0;
}

int cublasSetWorkspace_v2(handle_t handle, void *memory, size_t size) {
	(void)handle, (void)memory, (void)size;
	return 0;
}

const char *cublasGetStatusString(int status) { return status == 0 ? "success" : "failure of the stand-in"; }

int cublasSgemm_v2(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const float *a, int lda,
		const float *b, int ldb, const float *beta, float *c, int ldc) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
	return product("Sgemm", m, n, k, 0, 0, 0, 68, 1);
}

int cublasSgemmBatched(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const float *const a[], int lda,
		const float *const b[], int ldb, const float *beta, float *const c[], int ldc, int count) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
	return product("SgemmBatched", m, n, k, 0, 0, 0, 68, count);
}

int cublasSgemmStridedBatched(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const float *a, int lda,
		long long stride_a, const float *b, int ldb, long long stride_b, const float *beta, float *c, int ldc, long long stride_c, int count) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
	(void)stride_a, (void)stride_b, (void)stride_c;
	return product("SgemmStridedBatched", m, n, k, 0, 0, 0, 68, count);
}

int cublasGemmEx(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
		const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute, int algorithm) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc, (void)algorithm;
	return product("GemmEx", m, n, k, type_a, type_b, type_c, compute, 1);
}

int cublasGemmBatchedEx(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *const a[], int type_a, int lda,
		const void *const b[], int type_b, int ldb, const void *beta, void *const c[], int type_c, int ldc, int count, int compute, int algorithm) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc, (void)algorithm;
	return product("GemmBatchedEx", m, n, k, type_a, type_b, type_c, compute, count);
}

int cublasGemmStridedBatchedEx(handle_t handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
		long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
		long long stride_c, int count, int compute, int algorithm) {
	(void)handle, (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc, (void)algorithm;
	(void)stride_a, (void)stride_b, (void)stride_c;
	return product("GemmStridedBatchedEx", m, n, k, type_a, type_b, type_c, compute, count);
}

int cublasStrsmBatched(handle_t handle, int side, int uplo, int trans, int diagonal, int m, int n, const float *alpha, const float *const a[], int lda,
		float *const b[], int ldb, int count) {
	(void)handle, (void)side, (void)uplo, (void)trans, (void)diagonal, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;
	return product("StrsmBatched", m, n, m, 0, 0, 0, 68, count);
}
