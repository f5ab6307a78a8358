//go:build ignore

#include "to_bf16.h"
#include "blocks.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <string.h>

#define AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,f16c")))

// All types come in groups of so many elements, in blocks of one group or of LARGE elements.
enum { GROUP = 32, HALF = GROUP / 2, LARGE = 256, GROUPS = LARGE / GROUP };

AVX512_BF16 static inline __m512i goggml_rounded(__m512 first, __m512 second) {
	return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

AVX512_BF16 static inline __m512 goggml_floats(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }

// A group of which each half has its scale.
AVX512_BF16 static inline __m512i goggml_scaled(__m256i q, float first, float second) {
	return goggml_rounded(
		_mm512_mul_ps(_mm512_set1_ps(first), goggml_floats(_mm256_castsi256_si128(q))),
		_mm512_mul_ps(_mm512_set1_ps(second), goggml_floats(_mm256_extracti128_si256(q, 1))));
}

AVX512_BF16 static inline __m256i goggml_bytes(const void *group) { return _mm256_loadu_si256(group); }

// So many bits of each byte, from a bit on.
AVX512_BF16 static inline __m256i goggml_bits(__m256i bytes, int from, int count) {
	return _mm256_and_si256(_mm256_srli_epi16(bytes, from), _mm256_set1_epi8((char)((1 << count) - 1)));
}

// Types of few bits have few values in a group: a table of them is rounded, and each element looked up.
AVX512_BF16 static inline void goggml_look_up(uint16_t *to, __m512i table, __m256i q) {
	_mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(q), table));
}

AVX512_BF16 static void goggml_f16_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const uint16_t *x = from;
	for (; n >= GROUP; n -= GROUP, x += GROUP, to += GROUP) {
		_mm512_storeu_si512(to, goggml_rounded(_mm512_cvtph_ps(goggml_bytes(x)), _mm512_cvtph_ps(goggml_bytes(x + HALF))));
	}
	if (n > 0) {
		uint16_t rest[GROUP] = {0}, result[GROUP];
		memcpy(rest, x, n * sizeof *x);
		goggml_f16_to_bf16(rest, result, GROUP);
		memcpy(to, result, n * sizeof *to);
	}
}

AVX512_BF16 static void goggml_q8_0_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q8_0 *b = from;
	for (const uint16_t *end = to + n; to < end; to += GROUP, b++) {
		float d = _cvtsh_ss(b->d);
		_mm512_storeu_si512(to, goggml_scaled(goggml_bytes(b->q), d, d));
	}
}

AVX512_BF16 static inline void goggml_q4_to_bf16(const void *from, uint16_t *to, int64_t n, __m128i values) {
	const struct goggml_q4 *b = from;
	const __m512 floats = goggml_floats(values);
	for (const uint16_t *end = to + n; to < end; to += GROUP, b++) {
		__m512 scaled = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(b->d)), floats);
		__m128i q = _mm_loadu_si128((const void *)b->q);
		goggml_look_up(to, goggml_rounded(scaled, scaled), goggml_bits(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), 0, 4));
	}
}

AVX512_BF16 static void goggml_q4_0_to_bf16(const void *from, uint16_t *to, int64_t n) {
	goggml_q4_to_bf16(from, to, n, _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}

AVX512_BF16 static void goggml_iq4_nl_to_bf16(const void *from, uint16_t *to, int64_t n) {
	goggml_q4_to_bf16(from, to, n, _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
}

// What begins the blocks of Q4_K and Q5_K: a value is d · scale · q − min · minimum, with six bits for the scale and
// the minimum of each group.
struct goggml_k_head {
	uint16_t d, min;
	uint8_t scales[12];
};

struct goggml_q4_k {
	struct goggml_k_head head;
	uint8_t q[LARGE / 2]; // two groups side by side
};

struct goggml_q5_k {
	struct goggml_k_head head;
	uint8_t high[GROUP]; // a bit of each group
	uint8_t q[LARGE / 2];
};

struct goggml_k_scales {
	float d[GROUPS], min[GROUPS];
};

AVX512_BF16 static inline void goggml_put_scales(float *to, uint32_t first, uint32_t second, uint16_t unit) {
	__m128i bytes = _mm_set_epi32(0, 0, (int)second, (int)first);
	_mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(unit)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))));
}

// Of the first four groups the bits are in one piece; those of the others are four, and two above the first's.
AVX512_BF16 static inline struct goggml_k_scales goggml_k_scales(const struct goggml_k_head *head) {
	enum { SIX = 0x3f3f3f3f, UPPER = 0x30303030, LOWER = 0x0f0f0f0f };
	struct goggml_k_scales s;
	uint32_t bits[3];
	memcpy(bits, head->scales, sizeof bits);
	goggml_put_scales(s.d, bits[0] & SIX, (bits[0] >> 2 & UPPER) | (bits[2] & LOWER), head->d);
	goggml_put_scales(s.min, bits[1] & SIX, (bits[1] >> 2 & UPPER) | (bits[2] >> 4 & LOWER), head->min);
	return s;
}

// The values of a group for q from first to first + 15.
AVX512_BF16 static inline __m512 goggml_k_values(const struct goggml_k_scales *s, int group, float first) {
	const __m512 steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	__m512 q = _mm512_add_ps(_mm512_set1_ps(first), steps);
	return _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(s->d[group]), q), _mm512_set1_ps(s->min[group]));
}

AVX512_BF16 static void goggml_q4_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q4_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		struct goggml_k_scales s = goggml_k_scales(&b->head);
		for (int i = 0; i < GROUPS; i += 2) {
			__m512i table = goggml_rounded(goggml_k_values(&s, i, 0), goggml_k_values(&s, i + 1, 0));
			__m256i q = goggml_bytes(b->q + i * HALF);
			goggml_look_up(to + i * GROUP, table, goggml_bits(q, 0, 4));
			goggml_look_up(to + (i + 1) * GROUP, table, _mm256_or_si256(goggml_bits(q, 4, 4), _mm256_set1_epi8(16)));
		}
	}
}

AVX512_BF16 static void goggml_q5_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q5_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		struct goggml_k_scales s = goggml_k_scales(&b->head);
		__m256i high = goggml_bytes(b->high);
		for (int i = 0; i < GROUPS; i++) {
			__m512i table = goggml_rounded(goggml_k_values(&s, i, 0), goggml_k_values(&s, i, 16));
			__m256i q = goggml_bits(goggml_bytes(b->q + i / 2 * GROUP), i % 2 * 4, 4);
			goggml_look_up(to + i * GROUP, table, _mm256_or_si256(q, _mm256_slli_epi16(goggml_bits(high, i, 1), 4)));
		}
	}
}

// Each half of a group has its scale.
struct goggml_q6_k {
	uint8_t low[LARGE / 2];  // four bits, of two groups side by side
	uint8_t high[LARGE / 4]; // two bits, of four
	int8_t scales[LARGE / HALF];
	uint16_t d;
};

AVX512_BF16 static void goggml_q6_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q6_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		float d[LARGE / HALF];
		__m512 scales = goggml_floats(_mm_loadu_si128((const void *)b->scales));
		_mm512_storeu_ps(d, _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(b->d)), scales));
		for (int i = 0; i < GROUPS; i++) {
			int four = i / 4, j = i % 4;
			__m256i low = goggml_bits(goggml_bytes(b->low + (2 * four + j % 2) * GROUP), j / 2 * 4, 4);
			__m256i high = goggml_bits(goggml_bytes(b->high + four * GROUP), 2 * j, 2);
			__m256i q = _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
			_mm512_storeu_si512(to + i * GROUP, goggml_scaled(_mm256_sub_epi8(q, _mm256_set1_epi8(32)), d[2 * i], d[2 * i + 1]));
		}
	}
}

goggml_to_bf16_t goggml_to_bf16(enum ggml_type type) {
	if (!__builtin_cpu_supports("avx512bf16")) {
		return NULL;
	}
	switch (type) {
	case GGML_TYPE_F16: return goggml_f16_to_bf16;
	case GGML_TYPE_Q8_0: return goggml_q8_0_to_bf16;
	case GGML_TYPE_Q4_0: return goggml_q4_0_to_bf16;
	case GGML_TYPE_IQ4_NL: return goggml_iq4_nl_to_bf16;
	case GGML_TYPE_Q4_K: return goggml_q4_k_to_bf16;
	case GGML_TYPE_Q5_K: return goggml_q5_k_to_bf16;
	case GGML_TYPE_Q6_K: return goggml_q6_k_to_bf16;
	default: return NULL;
	}
}

#else

goggml_to_bf16_t goggml_to_bf16(enum ggml_type type) { return NULL; }

#endif
