#include "gemv_f16.h"
#include "isa.h"
#include "kern.h"

#include <string.h>

#if defined(__x86_64__)

enum { KERN_WIDEST = 16 }; // elements in the widest register

static int64_t kern_padded_f32(int64_t k) { return kern_ceil_div(k, KERN_WIDEST) * KERN_WIDEST; }

static size_t kern_column_bytes(int64_t k) { return (size_t)kern_padded_f32(k) * sizeof(float); }

// Columns stay in F32, with zeros up to a whole register.
static void kern_pack_f32(const float *x, void *column, int64_t k) {
	memcpy(column, x, (size_t)k * sizeof *x);
	memset((float *)column + k, 0, (size_t)(kern_padded_f32(k) - k) * sizeof *x);
}

const struct kern_gemv_kernel *kern_gemv_f16(void) {
	static const struct kern_gemv_kernel avx512 = {kern_column_bytes, kern_pack_f32, kern_multiply_f16_avx512};
	static const struct kern_gemv_kernel avx2 = {kern_column_bytes, kern_pack_f32, kern_multiply_f16_avx2};
	if (kern_isa_avx512()) {
		return &avx512;
	}
	return kern_isa_f16c() ? &avx2 : NULL;
}

#else

const struct kern_gemv_kernel *kern_gemv_f16(void) { return NULL; }

#endif
