#include "dequantize.h"

#if defined(__x86_64__)

#include <string.h>

#include "avx2.h"
#include "blocks.h"

// Types that ggml converts without vectors. Elements of quantised ones become 8-bit integers, which are multiplied by the scale
// of a half group.

enum { KERN_GROUP = KERN_BLOCK, KERN_HALF_GROUP = KERN_GROUP / 2, KERN_GROUPS = KERN_SUPER_BLOCK / KERN_GROUP };

KERN_F16C_INLINE void kern_store_half(float *to, __m128i q, float scale) {
	__m256 d = _mm256_set1_ps(scale);
	_mm256_storeu_ps(to, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
	_mm256_storeu_ps(to + 8, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(q, q)))));
}

KERN_F16C_INLINE void kern_store_group(float *to, __m256i q, float first, float second) {
	kern_store_half(to, _mm256_castsi256_si128(q), first);
	kern_store_half(to + KERN_HALF_GROUP, _mm256_extracti128_si256(q, 1), second);
}

// Looks up nibbles, of which the low ones are the first half of a group.
KERN_F16C_INLINE void kern_store_nibbles(float *to, const uint8_t *group, float d, const int8_t table[16]) {
	__m128i q = _mm_loadu_si128((const void *)group), low = _mm_set1_epi8(15), values = _mm_loadu_si128((const void *)table);
	kern_store_half(to, _mm_shuffle_epi8(values, _mm_and_si128(q, low)), d);
	kern_store_half(to + KERN_HALF_GROUP, _mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(q, 4), low)), d);
}

KERN_F16C static void kern_iq4_nl_to_f32(const void *from, float *to, int64_t n) {
	for (const struct kern_q4 *b = from; n > 0; n -= KERN_GROUP, b++, to += KERN_GROUP) {
		kern_store_nibbles(to, b->q, _cvtsh_ss(b->d), kern_iq4_table);
	}
}

KERN_F16C static void kern_iq4_xs_to_f32(const void *from, float *to, int64_t n) {
	for (const struct kern_iq4_xs *b = from; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		for (int i = 0; i < KERN_GROUPS; i++, to += KERN_GROUP) {
			kern_store_nibbles(to, b->q + i * KERN_HALF_GROUP, _cvtsh_ss(b->d) * (float)kern_iq4_xs_scale(b, i), kern_iq4_table);
		}
	}
}

KERN_F16C static void kern_mxfp4_to_f32(const void *from, float *to, int64_t n) {
	for (const struct kern_mxfp4 *b = from; n > 0; n -= KERN_GROUP, b++, to += KERN_GROUP) {
		kern_store_nibbles(to, b->q, kern_half_e8m0(b->e), kern_e2m1_table);
	}
}

KERN_F16C static void kern_q6_k_to_f32(const void *from, float *to, int64_t n) {
	for (const struct kern_q6_k *b = from; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		float d = _cvtsh_ss(b->d);
		for (int i = 0; i < KERN_GROUPS; i++, to += KERN_GROUP) {
			int half = i / 4, quarter = i % 4;
			__m256i low = _mm256_loadu_si256((const void *)(b->low + (2 * half + quarter % 2) * KERN_GROUP));
			__m256i high = _mm256_loadu_si256((const void *)(b->high + half * KERN_GROUP));
			low = _mm256_and_si256(_mm256_srli_epi16(low, quarter / 2 * 4), _mm256_set1_epi8(15));
			high = _mm256_and_si256(_mm256_srli_epi16(high, 2 * quarter), _mm256_set1_epi8(3));
			__m256i q = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32));
			kern_store_group(to, q, d * (float)b->scales[2 * i], d * (float)b->scales[2 * i + 1]);
		}
	}
}

// 8 elements of F8_E4M3, as kern_load_f8_e4m3 converts them.
KERN_F16C_INLINE __m256 kern_from_f8_e4m3(const void *x) {
	__m128i bits = _mm_cvtepu8_epi16(_mm_loadl_epi64(x)), magnitude = _mm_and_si128(bits, _mm_set1_epi16(0x7f));
	__m128i half = _mm_or_si128(_mm_slli_epi16(magnitude, 7), _mm_slli_epi16(_mm_xor_si128(bits, magnitude), 8));
	__m256i nan = _mm256_cvtepi16_epi32(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)));
	return _mm256_or_ps(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256)), _mm256_castsi256_ps(nan));
}

KERN_F16C static void kern_f8_e4m3_to_f32(const void *from, float *to, int64_t n) {
	const uint8_t *x = from;
	for (; n >= 8; n -= 8, x += 8, to += 8) { _mm256_storeu_ps(to, kern_from_f8_e4m3(x)); }
	uint8_t rest[8] = {0};
	float last[8];
	memcpy(rest, x, n);
	_mm256_storeu_ps(last, kern_from_f8_e4m3(rest));
	memcpy(to, last, n * sizeof *to);
}

ggml_to_float_t kern_avx2_to_f32(enum ggml_type type) {
	switch (type) {
	case GGML_TYPE_F8_E4M3: return kern_f8_e4m3_to_f32;
	case GGML_TYPE_IQ4_NL: return kern_iq4_nl_to_f32;
	case GGML_TYPE_IQ4_XS: return kern_iq4_xs_to_f32;
	case GGML_TYPE_MXFP4: return kern_mxfp4_to_f32;
	case GGML_TYPE_Q6_K: return kern_q6_k_to_f32;
	default: return NULL;
	}
}

#endif
