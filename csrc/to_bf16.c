//go:build ignore

#include "to_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#define AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,f16c")))

// All types come in groups of so many elements, whose values are d·q − min.
enum { GROUP = 32, HALF = GROUP / 2, LARGE = 256 };

AVX512_BF16 static inline void goggml_put(uint16_t *to, __m512 first, __m512 second) {
	__m512bh group = _mm512_cvtne2ps_pbh(second, first);
	memcpy(to, &group, sizeof group);
}

AVX512_BF16 static inline __m512 goggml_floats(__m128i q) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)); }

AVX512_BF16 static inline void goggml_put_scaled(uint16_t *to, __m128i first, __m128i second, float d) {
	__m512 scale = _mm512_set1_ps(d);
	goggml_put(to, _mm512_mul_ps(scale, goggml_floats(first)), _mm512_mul_ps(scale, goggml_floats(second)));
}

AVX512_BF16 static inline __m128i goggml_bytes(const void *from) { return _mm_loadu_si128(from); }
AVX512_BF16 static inline __m128i goggml_low(__m128i q) { return _mm_and_si128(q, _mm_set1_epi8(15)); }
AVX512_BF16 static inline __m128i goggml_high(__m128i q) { return goggml_low(_mm_srli_epi16(q, 4)); }

AVX512_BF16 static void goggml_f16_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const uint16_t *x = from;
	for (; n >= GROUP; n -= GROUP, x += GROUP, to += GROUP) {
		goggml_put(to, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x)), _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + HALF))));
	}
	if (n > 0) {
		uint16_t rest[GROUP] = {0}, result[GROUP];
		memcpy(rest, x, n * sizeof *x);
		goggml_f16_to_bf16(rest, result, GROUP);
		memcpy(to, result, n * sizeof *to);
	}
}

struct goggml_q8_0 {
	uint16_t d;
	int8_t q[GROUP];
};

AVX512_BF16 static void goggml_q8_0_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q8_0 *b = from;
	for (const uint16_t *end = to + n; to < end; to += GROUP, b++) {
		goggml_put_scaled(to, goggml_bytes(b->q), goggml_bytes(b->q + HALF), _cvtsh_ss(b->d));
	}
}

// Q4_0 and IQ4_NL: the low bits are the first half of the group.
struct goggml_q4 {
	uint16_t d;
	uint8_t q[HALF];
};

AVX512_BF16 static inline void goggml_q4_to_bf16(const void *from, uint16_t *to, int64_t n, __m128i values) {
	const struct goggml_q4 *b = from;
	for (const uint16_t *end = to + n; to < end; to += GROUP, b++) {
		__m128i q = goggml_bytes(b->q);
		goggml_put_scaled(to, _mm_shuffle_epi8(values, goggml_low(q)), _mm_shuffle_epi8(values, goggml_high(q)), _cvtsh_ss(b->d));
	}
}

AVX512_BF16 static void goggml_q4_0_to_bf16(const void *from, uint16_t *to, int64_t n) {
	goggml_q4_to_bf16(from, to, n, _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}

AVX512_BF16 static void goggml_iq4_nl_to_bf16(const void *from, uint16_t *to, int64_t n) {
	goggml_q4_to_bf16(from, to, n, _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
}

// Q4_K and the beginning of Q5_K. The scales and minima of the eight groups have six bits each.
struct goggml_q4_k {
	uint16_t d, min;
	uint8_t scales[12], q[LARGE / 2];
};

struct goggml_q5_k {
	uint16_t d, min;
	uint8_t scales[12], high[GROUP], q[LARGE / 2];
};

static inline int goggml_scale_of(const uint8_t *s, int i) { return i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4; }
static inline int goggml_min_of(const uint8_t *s, int i) { return i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | s[i] >> 6 << 4; }

// The group i of a block with these fields. Two groups share their bytes, and all of them those of high, which is NULL
// in Q4_K.
AVX512_BF16 static inline void goggml_put_k(uint16_t *to, const struct goggml_q4_k *b, const uint8_t *bytes, const uint8_t *high, int i) {
	__m512 d = _mm512_set1_ps(_cvtsh_ss(b->d) * goggml_scale_of(b->scales, i));
	__m512 min = _mm512_set1_ps(_cvtsh_ss(b->min) * goggml_min_of(b->scales, i));
	__m512 values[2];
	for (int h = 0; h < 2; h++) {
		__m128i q = goggml_bytes(bytes + i / 2 * GROUP + h * HALF);
		q = i % 2 == 0 ? goggml_low(q) : goggml_high(q);
		if (high != NULL) {
			__m128i bit = _mm_and_si128(_mm_srli_epi16(goggml_bytes(high + h * HALF), i), _mm_set1_epi8(1));
			q = _mm_or_si128(q, _mm_slli_epi16(bit, 4));
		}
		values[h] = _mm512_sub_ps(_mm512_mul_ps(d, goggml_floats(q)), min);
	}
	goggml_put(to, values[0], values[1]);
}

AVX512_BF16 static void goggml_q4_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q4_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		for (int i = 0; i < LARGE / GROUP; i++) {
			goggml_put_k(to + i * GROUP, b, b->q, NULL, i);
		}
	}
}

AVX512_BF16 static void goggml_q5_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q5_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		for (int i = 0; i < LARGE / GROUP; i++) {
			goggml_put_k(to + i * GROUP, (const struct goggml_q4_k *)b, b->q, b->high, i);
		}
	}
}

// The scales are of half groups. Four groups share the bytes of high, two bits each, and two those of low.
struct goggml_q6_k {
	uint8_t low[LARGE / 2], high[LARGE / 4];
	int8_t scales[LARGE / HALF];
	uint16_t d;
};

AVX512_BF16 static inline __m512 goggml_q6_k_half(const struct goggml_q6_k *b, int i, int h) {
	int four = i / 4, j = i % 4;
	__m128i low = goggml_bytes(b->low + four * LARGE / 4 + j % 2 * GROUP + h * HALF);
	__m128i high = _mm_srli_epi16(goggml_bytes(b->high + four * GROUP + h * HALF), 2 * j);
	__m128i q = _mm_or_si128(j < 2 ? goggml_low(low) : goggml_high(low), _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4));
	__m512 d = _mm512_set1_ps(_cvtsh_ss(b->d) * b->scales[2 * i + h]);
	return _mm512_mul_ps(d, goggml_floats(_mm_sub_epi8(q, _mm_set1_epi8(32))));
}

AVX512_BF16 static void goggml_q6_k_to_bf16(const void *from, uint16_t *to, int64_t n) {
	const struct goggml_q6_k *b = from;
	for (const uint16_t *end = to + n; to < end; to += LARGE, b++) {
		for (int i = 0; i < LARGE / GROUP; i++) {
			goggml_put(to + i * GROUP, goggml_q6_k_half(b, i, 0), goggml_q6_k_half(b, i, 1));
		}
	}
}

goggml_to_bf16_t goggml_to_bf16(enum ggml_type type) {
	if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vl")) {
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
