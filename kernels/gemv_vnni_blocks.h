// Shared by the products of types with blocks of 32 elements.
//
// Zero-point correction: vpdpbusd takes a row's elements unsigned, so an offset, the zero point, is added to them. Its
// contribution to a sum depends only on the column, and is subtracted in advance.
#ifndef KERN_GEMV_VNNI_BLOCKS_H
#define KERN_GEMV_VNNI_BLOCKS_H

#include "blocks.h"
#include "gemv_vnni.h"
#include "vnni.h"

// A part consists of eight blocks of a row.
enum { KERN_PART_BLOCKS = 8, KERN_ZERO_POINT_Q8_0 = 128, KERN_ZERO_POINT_Q4_0 = 8 };

KERN_VNNI_INLINE __m128i kern_quantize_half(__m512 x, float scale) {
	return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(scale))));
}

// Quantises a block of a column to 8 bits with a scale.
KERN_VNNI_INLINE __m256i kern_quantize_block(const float *x, float *d) {
	__m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + KERN_BLOCK / 2);
	float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
	float scale = largest > 0 ? 127 / largest : 0;
	*d = _cvtsh_ss(_cvtss_sh(largest / 127, _MM_FROUND_TO_NEAREST_INT));
	return _mm256_set_m128i(kern_quantize_half(second, scale), kern_quantize_half(first, scale));
}

// Returns the negated contribution of a zero point to the sums of four products each.
KERN_VNNI_INLINE __m256i kern_correction(__m256i q, int zero_point) {
	__m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
	return _mm256_mullo_epi32(sums, _mm256_set1_epi32(-zero_point));
}

// Returns the F16 scales of eight blocks as F32. Even ones are in the low 16 bits of their element, odd
// ones in the high 16.
KERN_VNNI_INLINE __m256 kern_scales(__m256i fours) {
	const __m256i halves = _mm256_setr_epi32(0, 16, 0, 16, 0, 16, 0, 16);
	return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srlv_epi32(fours, halves)));
}

KERN_VNNI_INLINE __m256 kern_scales_q8_0(const struct kern_q8_0 *w) {
	const __m512i four = _mm512_setr_epi32(0, 8, 17, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m512i more = _mm512_setr_epi32(0, 0, 0, 0, 2, 10, 19, 27, 0, 0, 0, 0, 0, 0, 0, 0);
	const char *bytes = (const char *)w;
	__m512i low = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes), four, _mm512_loadu_si512(bytes + KERN_REGISTER));
	__m512i high = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes + 2 * KERN_REGISTER), more, _mm512_loadu_si512(bytes + 3 * KERN_REGISTER));
	return kern_scales(_mm256_blend_epi32(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high), 0xf0));
}

KERN_VNNI_INLINE __m256 kern_scales_q4_0(const struct kern_q4 *w) {
	const __m512i all = _mm512_setr_epi32(0, 4, 9, 13, 18, 22, 27, 31, 0, 0, 0, 0, 0, 0, 0, 0);
	const char *bytes = (const char *)w;
	return kern_scales(_mm512_castsi512_si256(_mm512_permutex2var_epi32(_mm512_loadu_si512(bytes), all, _mm512_loadu_si512(bytes + KERN_REGISTER))));
}

#endif
