// Shared by the dot products with AVX2: a part of a row is unpacked once for all columns, of which four at a time are
// multiplied with their sums in registers.
#ifndef KERN_GEMV_AVX2_ROW_H
#define KERN_GEMV_AVX2_ROW_H

#include "avx2.h"
#include "gemv_avx2.h"

#include <string.h>

// Keeps an array in memory, from which an instruction loads an element into all lanes. GCC would shuffle registers instead.
#define KERN_IN_MEMORY(array) __asm__("" : "+m"(array))
// Keeps a vector in a register, from which several instructions read it.
#define KERN_IN_REGISTER(vector) __asm__("" : "+x"(vector))
#define KERN_UNROLL(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

enum {
	KERN_REGISTER = 32,        // elements of 8 bits
	KERN_PART = 256,           // elements of a part of a row
	KERN_PART_REGISTERS = KERN_PART / KERN_REGISTER,
	KERN_GROUP = 4,            // columns whose sums are in registers
	KERN_NC = 32,              // columns for which a part is unpacked
	KERN_AHEAD = 8192,         // distance of software prefetch in bytes: the hardware prefetcher stops at each page
};

// Returns the largest magnitude of 32 elements in each lane.
KERN_F16C_INLINE __m256 kern_largest(const float *x) {
	__m256 largest = _mm256_setzero_ps();
	KERN_UNROLL(i, 4) largest = _mm256_max_ps(largest, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + 8 * i)));
	return largest;
}

// Rounds 32 elements to 8 bits.
KERN_F16C_INLINE __m256i kern_round(const float *x, float factor) {
	__m256i q[4];
	KERN_UNROLL(i, 4) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(factor)));
	__m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
	return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

KERN_F16C_INLINE int64_t kern_whole_groups(int64_t n) { return (n + KERN_GROUP - 1) / KERN_GROUP * KERN_GROUP; }

// Returns the sums of all lanes of each register.
KERN_F16C_INLINE __m128 kern_sum_registers(const __m256 sums[KERN_GROUP]) {
	__m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(sums[0], sums[1]), _mm256_hadd_ps(sums[2], sums[3]));
	return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

// Returns a copy of n bytes, followed by zeros.
static inline const void *kern_pad(void *copy, size_t size, const void *from, size_t n) {
	memset(copy, 0, size);
	return memcpy(copy, from, n);
}

// Defines kern_multiply_TYPE of struct kern_gemv_kernel, for rows of blocks and packed columns of the structs, by
//   kern_unpack_TYPE(unpacked, row), which unpacks a part of a row, and
//   add(sums, unpacked, columns, stride, n), which adds the part's products with up to KERN_GROUP columns.
// A single column is multiplied by KERN_GROUP rows, so that their lanes are added up together. The last part of a row may have
// fewer blocks: zeros follow them.
#define KERN_AVX2_MULTIPLY(type, block, block_struct, unpacked_struct, add, column_struct) \
	KERN_F16C_INLINE void kern_dots_##type(__m256 *sums, int64_t k, const char *row, const char *columns, size_t stride, const int64_t n) { \
		enum { SIZE = KERN_PART / block * sizeof(struct block_struct) }; \
		for (; k > 0; k -= KERN_PART, row += SIZE, columns += sizeof(struct column_struct)) { \
			struct unpacked_struct unpacked; \
			int64_t j = 0; \
			for (size_t i = 0; i < SIZE; i += 64) { __builtin_prefetch(row + KERN_AHEAD + i); } \
			struct block_struct last[KERN_PART / block]; \
			const void *part = KERN_PART / block > 1 && k < KERN_PART ? kern_pad(last, SIZE, row, (size_t)k / block * sizeof *last) : row; \
			kern_unpack_##type(&unpacked, part); \
			for (; j + KERN_GROUP <= n; j += KERN_GROUP) { add(sums + j, &unpacked, columns + j * stride, stride, KERN_GROUP); } \
			switch (n - j) { \
			case 1: add(sums + j, &unpacked, columns + j * stride, stride, 1); break; \
			case 2: add(sums + j, &unpacked, columns + j * stride, stride, 2); break; \
			case 3: add(sums + j, &unpacked, columns + j * stride, stride, 3); break; \
			} \
		} \
	} \
	KERN_F16C_INLINE void kern_multiply_row_##type(float *y, int64_t ldy, int64_t k, const char *row, const char *columns, size_t stride, const int64_t n) { \
		__m256 sums[KERN_NC]; \
		float whole[KERN_GROUP]; \
		for (int64_t j = 0; j < kern_whole_groups(n); j++) { sums[j] = _mm256_setzero_ps(); } \
		kern_dots_##type(sums, k, row, columns, stride, n); \
		for (int64_t j = 0; j < n; j++) { \
			if (j % KERN_GROUP == 0) { _mm_storeu_ps(whole, kern_sum_registers(sums + j)); } \
			y[j * ldy] = whole[j % KERN_GROUP]; \
		} \
	} \
	KERN_F16C static void kern_multiply_##type(float *y, int64_t ldy, int64_t k, int64_t m, \
			const char *w, size_t row_size, const char *columns, size_t stride, int64_t n) { \
		for (; n == 1 && m >= KERN_GROUP; m -= KERN_GROUP, y += KERN_GROUP) { \
			__m256 sums[KERN_GROUP] = {0}; \
			for (int i = 0; i < KERN_GROUP; i++, w += row_size) { kern_dots_##type(sums + i, k, w, columns, stride, 1); } \
			_mm_storeu_ps(y, kern_sum_registers(sums)); \
		} \
		for (; m > 0; m--, y++, w += row_size) { \
			for (int64_t j = 0; j < n; j += KERN_NC) { \
				const char *some = columns + j * stride; \
				switch (n - j) { \
				case 1: kern_multiply_row_##type(y + j * ldy, ldy, k, w, some, stride, 1); break; \
				case 2: kern_multiply_row_##type(y + j * ldy, ldy, k, w, some, stride, 2); break; \
				case 3: kern_multiply_row_##type(y + j * ldy, ldy, k, w, some, stride, 3); break; \
				case 4: kern_multiply_row_##type(y + j * ldy, ldy, k, w, some, stride, 4); break; \
				default: kern_multiply_row_##type(y + j * ldy, ldy, k, w, some, stride, n - j < KERN_NC ? n - j : KERN_NC); \
				} \
			} \
		} \
	}

#endif
