// The micro-kernel of registers of 512 bits: 32 rows and 12 columns stay in them.
#ifndef KERN_GEMM_ZMM_H
#define KERN_GEMM_ZMM_H

#include <immintrin.h>

#include "gemm_ukr.h"

#define KERN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

enum { KERN_VECTOR = 16 }; // rows in a register

// C += scale · sums for the rows of a register.
KERN_VNNI static inline __attribute__((always_inline)) void kern_update(float *c, __m512i sums, __m512 scale, bool accumulate) {
	__m512 values = _mm512_cvtepi32_ps(sums);
	_mm512_storeu_ps(c, accumulate ? _mm512_fmadd_ps(values, scale, _mm512_loadu_ps(c)) : _mm512_mul_ps(values, scale));
}

#define KERN_EACH_COLUMN(X, y) X(0, y) X(1, y) X(2, y) X(3, y) X(4, y) X(5, y) X(6, y) X(7, y) X(8, y) X(9, y) X(10, y) X(11, y)

// Sums are variables of their own, and the instruction is written out: GCC moves elements of arrays, and the results of
// the intrinsic, through memory.
#define KERN_BEGIN(j, _) __m512i lower##j = _mm512_set1_epi32(b->first[j]), upper##j = lower##j;
#define KERN_ADD(j, instruction) \
		some = _mm512_set1_epi32((int)b->q[i][j]); \
		__asm__(instruction " %2, %1, %0" : "+v"(lower##j) : "v"(first), "v"(some)); \
		__asm__(instruction " %2, %1, %0" : "+v"(upper##j) : "v"(second), "v"(some));
#define KERN_END(j, _) \
	scale = _mm512_set1_ps(b->scale[j]); \
	kern_update(c + j * ldc, lower##j, _mm512_mul_ps(lower_scale, scale), accumulate); \
	kern_update(c + j * ldc + KERN_VECTOR, upper##j, _mm512_mul_ps(upper_scale, scale), accumulate);

#define KERN_GEMM_ZMM(name, instruction) \
	KERN_VNNI void name(KERN_UKR_PARAMS) { \
		KERN_EACH_COLUMN(KERN_BEGIN, ) \
		for (int64_t i = 0; i < steps; i++) { \
			__m512i first = _mm512_load_si512(a->q[i]), second = _mm512_load_si512(a->q[i] + KERN_VECTOR), some; \
			KERN_EACH_COLUMN(KERN_ADD, instruction) \
		} \
		__m512 lower_scale = _mm512_loadu_ps(a->scale), upper_scale = _mm512_loadu_ps(a->scale + KERN_VECTOR), scale; \
		KERN_EACH_COLUMN(KERN_END, ) \
	}

#endif
