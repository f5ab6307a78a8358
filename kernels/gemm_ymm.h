// The micro-kernel of registers of 256 bits: 16 rows and 6 columns stay in them.
#ifndef KERN_GEMM_YMM_H
#define KERN_GEMM_YMM_H

#include "avx2.h"
#include "gemm_ukr.h"

enum { KERN_VECTOR = 8, KERN_YMM_COLUMNS = 6 }; // rows in a register, and columns

// Steps a turn of the loop. Where two threads share a core's decoder, the loop's own instructions cost a tenth of the speed.
enum { KERN_UNROLL = 4 };

// Adds a column's sums, times the scales of its rows and its own, to C, or stores them there.
KERN_INLINE void kern_update_column(float *c, __m256i lower, __m256i upper, __m256 lower_scale, __m256 upper_scale, float scale, bool accumulate) {
	__m256 first = _mm256_cvtepi32_ps(lower), second = _mm256_cvtepi32_ps(upper), column = _mm256_set1_ps(scale);
	lower_scale = _mm256_mul_ps(lower_scale, column), upper_scale = _mm256_mul_ps(upper_scale, column);
	_mm256_storeu_ps(c, accumulate ? _mm256_fmadd_ps(first, lower_scale, _mm256_loadu_ps(c)) : _mm256_mul_ps(first, lower_scale));
	c += KERN_VECTOR;
	_mm256_storeu_ps(c, accumulate ? _mm256_fmadd_ps(second, upper_scale, _mm256_loadu_ps(c)) : _mm256_mul_ps(second, upper_scale));
}

#define KERN_EACH_COLUMN(X, y) X(0, y) X(1, y) X(2, y) X(3, y) X(4, y) X(5, y)

// Sums are variables of their own, since GCC keeps elements of arrays in memory.
#define KERN_BEGIN(j, _) __m256i lower##j = _mm256_set1_epi32(b->first[column + j]), upper##j = lower##j;
#define KERN_END(j, _) kern_update_column(to + j * ldc, lower##j, upper##j, lower_scale, upper_scale, b->scale[column + j], accumulate);

// The micro-kernel of ADD(j, instruction), which adds the products of the rows first and second, and of q[j], to lower##j
// and upper##j.
#define KERN_GEMM_YMM(name, ADD, instruction) \
	KERN_AVX2 void name(KERN_UKR_PARAMS) { \
		for (int row = 0; row < KERN_MR; row += 2 * KERN_VECTOR) { \
			for (int column = 0; column < KERN_NR; column += KERN_YMM_COLUMNS) { \
				KERN_EACH_COLUMN(KERN_BEGIN, ) \
				const uint32_t *p = a->q[0] + row, *q = b->q[0] + column; \
				for (int64_t i = 0; i < steps; i += KERN_UNROLL) { \
					_Pragma("GCC unroll 4") \
					for (int s = 0; s < KERN_UNROLL; s++, p += KERN_MR, q += KERN_NR) { \
						__m256i first = _mm256_load_si256((const void *)p), second = _mm256_load_si256((const void *)(p + KERN_VECTOR)); \
						KERN_EACH_COLUMN(ADD, instruction) \
					} \
				} \
				__m256 lower_scale = _mm256_loadu_ps(a->scale + row), upper_scale = _mm256_loadu_ps(a->scale + row + KERN_VECTOR); \
				float *to = c + column * ldc + row; \
				KERN_EACH_COLUMN(KERN_END, ) \
			} \
		} \
	}

// An instruction of AVX-VNNI is written out: GCC moves results of intrinsics through memory.
#define KERN_ADD_VNNI(j, instruction) { \
		__m256i some = _mm256_set1_epi32((int)q[j]); \
		__asm__("%{vex%} " instruction " %2, %1, %0" : "+x"(lower##j) : "x"(first), "x"(some)); \
		__asm__("%{vex%} " instruction " %2, %1, %0" : "+x"(upper##j) : "x"(second), "x"(some)); \
	}
#define KERN_GEMM_AVXVNNI(name, instruction) KERN_GEMM_YMM(name, KERN_ADD_VNNI, instruction)

#endif
