#include "gemm_ukr_i8.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { KERN_VECTOR = 16 }; // rows in a register

// C += scale · sums for the rows of a register.
KERN_VNNI static inline __attribute__((always_inline)) void kern_update(float *c, __m512i sums, __m512 scale, bool accumulate) {
	__m512 values = _mm512_cvtepi32_ps(sums);
	_mm512_storeu_ps(c, accumulate ? _mm512_fmadd_ps(values, scale, _mm512_loadu_ps(c)) : _mm512_mul_ps(values, scale));
}

// Sums are variables of their own, and the instruction is written out: GCC moves elements of arrays, and the results of
// the intrinsic, through memory.
#define KERN_EACH_COLUMN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

KERN_VNNI void kern_gemm_avx512vnni_i8_32x12(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b,
		float *c, int64_t ldc, bool accumulate) {
#define KERN_BEGIN(j) __m512i lower##j = _mm512_set1_epi32(b->correction[j]), upper##j = lower##j;
	KERN_EACH_COLUMN(KERN_BEGIN)
	for (int64_t i = 0; i < quads; i++) {
		__m512i first = _mm512_load_si512(a->q[i]), second = _mm512_load_si512(a->q[i][KERN_VECTOR]), four;
#define KERN_ADD(j) \
		four = _mm512_set1_epi32(*(const int *)b->q[i][j]); \
		__asm__("vpdpbusd %2, %1, %0" : "+v"(lower##j) : "v"(first), "v"(four)); \
		__asm__("vpdpbusd %2, %1, %0" : "+v"(upper##j) : "v"(second), "v"(four));
		KERN_EACH_COLUMN(KERN_ADD)
	}
	__m512 lower_scale = _mm512_loadu_ps(a->scale), upper_scale = _mm512_loadu_ps(a->scale + KERN_VECTOR), scale;
#define KERN_END(j) \
	scale = _mm512_set1_ps(b->scale[j]); \
	kern_update(c + j * ldc, lower##j, _mm512_mul_ps(lower_scale, scale), accumulate); \
	kern_update(c + j * ldc + KERN_VECTOR, upper##j, _mm512_mul_ps(upper_scale, scale), accumulate);
	KERN_EACH_COLUMN(KERN_END)
}

#endif
