//go:build ignore

#include "dequantize.h"
#include "blocks.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <string.h>

// Of each conversion one copy makes BF16 and one F32, which has none of the instructions for BF16.
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,f16c")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

// All types come in groups of so many elements, in blocks of one group or of LARGE elements.
enum { GROUP = 32, HALF = GROUP / 2, LARGE = 256, GROUPS = LARGE / GROUP };

INLINE __m512i goggml_rounded(__m512 first, __m512 second) {
	return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

// Stores a group, and returns where the next one goes.
INLINE char *goggml_put(char *to, bool bf16, __m512 first, __m512 second) {
	if (bf16) {
		_mm512_storeu_si512(to, goggml_rounded(first, second));
		return to + GROUP * sizeof(uint16_t);
	}
	_mm512_storeu_ps(to, first);
	_mm512_storeu_ps(to + HALF * sizeof(float), second);
	return to + GROUP * sizeof(float);
}

INLINE __m512 goggml_floats(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }
INLINE __m128i goggml_first(__m256i bytes) { return _mm256_castsi256_si128(bytes); }
INLINE __m128i goggml_second(__m256i bytes) { return _mm256_extracti128_si256(bytes, 1); }

// A group of which each half has its scale.
INLINE char *goggml_put_scaled(char *to, bool bf16, __m256i q, float first, float second) {
	return goggml_put(to, bf16,
		_mm512_mul_ps(_mm512_set1_ps(first), goggml_floats(goggml_first(q))),
		_mm512_mul_ps(_mm512_set1_ps(second), goggml_floats(goggml_second(q))));
}

INLINE __m256i goggml_bytes(const void *group) { return _mm256_loadu_si256(group); }

// So many bits of each byte, from a bit on.
INLINE __m256i goggml_bits(__m256i bytes, int from, int count) {
	return _mm256_and_si256(_mm256_srli_epi16(bytes, from), _mm256_set1_epi8((char)((1 << count) - 1)));
}

// Types of few bits have few values in a group: each element is looked up in a table of those of q below 16, and of
// the others.
INLINE char *goggml_put_looked_up(char *to, bool bf16, __m512 lower, __m512 upper, __m256i q) {
	if (bf16) {
		_mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(q), goggml_rounded(lower, upper)));
		return to + GROUP * sizeof(uint16_t);
	}
	return goggml_put(to, bf16,
		_mm512_permutex2var_ps(lower, _mm512_cvtepu8_epi32(goggml_first(q)), upper),
		_mm512_permutex2var_ps(lower, _mm512_cvtepu8_epi32(goggml_second(q)), upper));
}

INLINE __m512 goggml_f16_floats(const uint16_t *x) { return _mm512_cvtph_ps(goggml_bytes(x)); }

INLINE __m512 goggml_bf16_floats(const uint16_t *x) {
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(goggml_bytes(x)), 16));
}

// Rows of halves can end within a group.
INLINE void goggml_put_halves(const uint16_t *x, char *to, int64_t n, bool bf16, __m512 (*floats)(const uint16_t *)) {
	for (; n >= GROUP; n -= GROUP, x += GROUP) {
		to = goggml_put(to, bf16, floats(x), floats(x + HALF));
	}
	if (n > 0) {
		uint16_t rest[GROUP] = {0};
		char group[GROUP * sizeof(float)];
		memcpy(rest, x, n * sizeof *x);
		goggml_put(group, bf16, floats(rest), floats(rest + HALF));
		memcpy(to, group, n * (bf16 ? sizeof(uint16_t) : sizeof(float)));
	}
}

INLINE void goggml_put_f16(const void *from, char *to, int64_t n, bool bf16) {
	goggml_put_halves(from, to, n, bf16, goggml_f16_floats);
}

INLINE void goggml_put_bf16(const void *from, char *to, int64_t n, bool bf16) {
	goggml_put_halves(from, to, n, bf16, goggml_bf16_floats);
}

INLINE void goggml_put_q8_0(const void *from, char *to, int64_t n, bool bf16) {
	const struct goggml_q8_0 *b = from;
	for (; n > 0; n -= GROUP, b++) {
		float d = _cvtsh_ss(b->d);
		to = goggml_put_scaled(to, bf16, goggml_bytes(b->q), d, d);
	}
}

INLINE void goggml_put_q4(const void *from, char *to, int64_t n, bool bf16, __m128i values) {
	const struct goggml_q4 *b = from;
	const __m512 floats = goggml_floats(values);
	for (; n > 0; n -= GROUP, b++) {
		__m512 scaled = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(b->d)), floats);
		__m128i q = _mm_loadu_si128((const void *)b->q);
		to = goggml_put_looked_up(to, bf16, scaled, scaled, goggml_bits(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), 0, 4));
	}
}

INLINE void goggml_put_q4_0(const void *from, char *to, int64_t n, bool bf16) {
	goggml_put_q4(from, to, n, bf16, _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE void goggml_put_iq4_nl(const void *from, char *to, int64_t n, bool bf16) {
	goggml_put_q4(from, to, n, bf16, _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
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

INLINE void goggml_put_scales(float *to, uint32_t first, uint32_t second, uint16_t unit) {
	__m128i bytes = _mm_set_epi32(0, 0, (int)second, (int)first);
	_mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(unit)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))));
}

// Of the first four groups the bits are in one piece; those of the others are four, and two above the first's.
INLINE struct goggml_k_scales goggml_k_scales(const struct goggml_k_head *head) {
	enum { SIX = 0x3f3f3f3f, UPPER = 0x30303030, LOWER = 0x0f0f0f0f };
	struct goggml_k_scales s;
	uint32_t bits[3];
	memcpy(bits, head->scales, sizeof bits);
	goggml_put_scales(s.d, bits[0] & SIX, (bits[0] >> 2 & UPPER) | (bits[2] & LOWER), head->d);
	goggml_put_scales(s.min, bits[1] & SIX, (bits[1] >> 2 & UPPER) | (bits[2] >> 4 & LOWER), head->min);
	return s;
}

// The values of a group for q from first to first + 15.
INLINE __m512 goggml_k_values(const struct goggml_k_scales *s, int group, float first) {
	const __m512 steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	__m512 q = _mm512_add_ps(_mm512_set1_ps(first), steps);
	return _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(s->d[group]), q), _mm512_set1_ps(s->min[group]));
}

INLINE void goggml_put_q4_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct goggml_q4_k *b = from;
	for (; n > 0; n -= LARGE, b++) {
		struct goggml_k_scales s = goggml_k_scales(&b->head);
		for (int i = 0; i < GROUPS; i++) {
			__m512 values = goggml_k_values(&s, i, 0);
			to = goggml_put_looked_up(to, bf16, values, values, goggml_bits(goggml_bytes(b->q + i / 2 * GROUP), i % 2 * 4, 4));
		}
	}
}

INLINE void goggml_put_q5_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct goggml_q5_k *b = from;
	for (; n > 0; n -= LARGE, b++) {
		struct goggml_k_scales s = goggml_k_scales(&b->head);
		__m256i high = goggml_bytes(b->high);
		for (int i = 0; i < GROUPS; i++) {
			__m256i q = goggml_bits(goggml_bytes(b->q + i / 2 * GROUP), i % 2 * 4, 4);
			q = _mm256_or_si256(q, _mm256_slli_epi16(goggml_bits(high, i, 1), 4));
			to = goggml_put_looked_up(to, bf16, goggml_k_values(&s, i, 0), goggml_k_values(&s, i, 16), q);
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

INLINE void goggml_put_q6_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct goggml_q6_k *b = from;
	for (; n > 0; n -= LARGE, b++) {
		float d[LARGE / HALF];
		__m512 scales = goggml_floats(_mm_loadu_si128((const void *)b->scales));
		_mm512_storeu_ps(d, _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(b->d)), scales));
		for (int i = 0; i < GROUPS; i++) {
			int four = i / 4, j = i % 4;
			__m256i low = goggml_bits(goggml_bytes(b->low + (2 * four + j % 2) * GROUP), j / 2 * 4, 4);
			__m256i high = goggml_bits(goggml_bytes(b->high + four * GROUP), 2 * j, 2);
			__m256i q = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32));
			to = goggml_put_scaled(to, bf16, q, d[2 * i], d[2 * i + 1]);
		}
	}
}

#define EACH_TYPE(X) \
	X(F16, f16) X(BF16, bf16) X(Q8_0, q8_0) X(Q4_0, q4_0) X(IQ4_NL, iq4_nl) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k)

#define FUNCTIONS(TYPE, type) \
	AVX512 static void goggml_##type##_to_bf16(const void *from, uint16_t *to, int64_t n) { \
		goggml_put_##type(from, (char *)to, n, true); \
	} \
	AVX512 static void goggml_##type##_to_f32(const void *from, float *to, int64_t n) { \
		goggml_put_##type(from, (char *)to, n, false); \
	}
EACH_TYPE(FUNCTIONS)

goggml_to_bf16_t goggml_vector_to_bf16(enum ggml_type type) {
	if (!__builtin_cpu_supports("avx512bf16")) {
		return NULL;
	}
	switch (type) {
#define CASE(TYPE, type) case GGML_TYPE_##TYPE: return goggml_##type##_to_bf16;
	EACH_TYPE(CASE)
#undef CASE
	default: return NULL;
	}
}

ggml_to_float_t goggml_vector_to_float(enum ggml_type type) {
	if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) {
		return NULL;
	}
	switch (type) {
#define CASE(TYPE, type) case GGML_TYPE_##TYPE: return goggml_##type##_to_f32;
	EACH_TYPE(CASE)
#undef CASE
	default: return NULL;
	}
}

#else

goggml_to_bf16_t goggml_vector_to_bf16(enum ggml_type type) { return NULL; }
ggml_to_float_t goggml_vector_to_float(enum ggml_type type) { return NULL; }

#endif
