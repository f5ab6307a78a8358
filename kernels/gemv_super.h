// What the products with super-block types share: packed columns, and the scales of rows.
#ifndef KERN_GEMV_SUPER_H
#define KERN_GEMV_SUPER_H

#include <immintrin.h>

#include "blocks.h"

enum { KERN_SIXTEENS = KERN_SUPER_BLOCK / 16 };

// The part of a packed column for one super-block, with the sums of its elements: a minimum or zero
// point, which is subtracted from the elements of a row, is shared by 16 of them.
struct kern_super_column {
	_Alignas(64) int8_t q[KERN_SUPER_BLOCK];
	_Alignas(64) int16_t sums[KERN_SIXTEENS];
	float d;
};

// An element of a row is d · scale · q − min · minimum, with a scale and a minimum per 16 elements.
struct kern_super_scales {
	__m256i scales, minimums;
	float d, min;
};

// 6-bit scales followed by minimums: the first four of each have a byte; the others are split into
// four bits of their own, and two bits above the first four.
__attribute__((target("avx2,f16c"), always_inline)) static inline void kern_unpack_head(struct kern_super_scales *s, const struct kern_k_head *head) {
	enum { SIX = 0x3f3f3f3f, UPPER = 0x30303030, LOWER = 0x0f0f0f0f };
	const __m128i dup = _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
	__m128i bits = _mm_loadu_si128((const void *)head); // the scales are words 1 to 3
	__m128i own = _mm_srlv_epi32(_mm_shuffle_epi32(bits, _MM_SHUFFLE(3, 2, 3, 1)), _mm_setr_epi32(0, 0, 0, 4));
	__m128i above = _mm_srli_epi32(_mm_shuffle_epi32(bits, _MM_SHUFFLE(2, 2, 1, 1)), 2);
	own = _mm_and_si128(own, _mm_setr_epi32(SIX, LOWER, SIX, LOWER));
	__m128i all = _mm_or_si128(own, _mm_and_si128(above, _mm_setr_epi32(0, UPPER, 0, UPPER)));
	s->scales = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(all, dup));
	s->minimums = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(all, _mm_add_epi8(dup, _mm_set1_epi8(8))));
	__m128 units = _mm_cvtph_ps(bits);
	s->d = _mm_cvtss_f32(units);
	s->min = _mm_cvtss_f32(_mm_movehdup_ps(units));
}

__attribute__((target("avx2,f16c"), always_inline)) static inline void kern_unpack_scales_q6_k(struct kern_super_scales *s, const struct kern_q6_k *w) {
	s->scales = s->minimums = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w->scales));
	s->d = _cvtsh_ss(w->d);
	s->min = 32 * s->d;
}

#endif
