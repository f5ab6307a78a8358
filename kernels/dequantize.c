#include "dequantize.h"
#include "blocks.h"
#include "isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <string.h>

// Each conversion is compiled twice: to BF16, and to F32 without the instructions for BF16.
#define KERN_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,f16c")))
#define KERN_INLINE KERN_AVX512 __attribute__((always_inline)) static inline

// All types are processed in groups of 32 elements: a block is one group, a super-block eight.
enum { KERN_GROUP = KERN_BLOCK, KERN_HALF_GROUP = KERN_GROUP / 2, KERN_GROUPS = KERN_SUPER_BLOCK / KERN_GROUP };

KERN_INLINE __m512i kern_to_bf16(__m512 first, __m512 second) {
	return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

// Stores a group, and returns where the next one goes.
KERN_INLINE char *kern_store(char *to, bool bf16, __m512 first, __m512 second) {
	if (bf16) {
		_mm512_storeu_si512(to, kern_to_bf16(first, second));
		return to + KERN_GROUP * sizeof(uint16_t);
	}
	_mm512_storeu_ps(to, first);
	_mm512_storeu_ps(to + KERN_HALF_GROUP * sizeof(float), second);
	return to + KERN_GROUP * sizeof(float);
}

KERN_INLINE __m512 kern_from_i8(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }
KERN_INLINE __m128i kern_low_half(__m256i bytes) { return _mm256_castsi256_si128(bytes); }
KERN_INLINE __m128i kern_high_half(__m256i bytes) { return _mm256_extracti128_si256(bytes, 1); }

// Stores a group whose halves have separate scales.
KERN_INLINE char *kern_store_scaled(char *to, bool bf16, __m256i q, float first, float second) {
	return kern_store(to, bf16,
		_mm512_mul_ps(_mm512_set1_ps(first), kern_from_i8(kern_low_half(q))),
		_mm512_mul_ps(_mm512_set1_ps(second), kern_from_i8(kern_high_half(q))));
}

KERN_INLINE __m256i kern_load_bytes(const void *group) { return _mm256_loadu_si256(group); }

// Extracts count bits of each byte, starting at bit from.
KERN_INLINE __m256i kern_extract_bits(__m256i bytes, int from, int count) {
	return _mm256_and_si256(_mm256_srli_epi16(bytes, from), _mm256_set1_epi8((char)((1 << count) - 1)));
}

// Table look-up: a type of few bits has few values in a group. Elements with q < 16 are looked up
// in lower, the others in upper.
KERN_INLINE char *kern_store_looked_up(char *to, bool bf16, __m512 lower, __m512 upper, __m256i q) {
	if (bf16) {
		_mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(q), kern_to_bf16(lower, upper)));
		return to + KERN_GROUP * sizeof(uint16_t);
	}
	return kern_store(to, bf16,
		_mm512_permutex2var_ps(lower, _mm512_cvtepu8_epi32(kern_low_half(q)), upper),
		_mm512_permutex2var_ps(lower, _mm512_cvtepu8_epi32(kern_high_half(q)), upper));
}

KERN_INLINE __m512 kern_load_f16(const void *x) { return _mm512_cvtph_ps(kern_load_bytes(x)); }

KERN_INLINE __m512 kern_load_bf16(const void *x) {
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(kern_load_bytes(x)), 16));
}

// Exponent and mantissa stand where F16 has the end of its exponent and the beginning of its mantissa, with a bias that is
// smaller by 8.
KERN_INLINE __m512 kern_load_f8_e4m3(const void *x) {
	__m256i bits = _mm256_cvtepu8_epi16(_mm_loadu_si128(x)), magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7f));
	__m256i half = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), _mm256_slli_epi16(_mm256_xor_si256(bits, magnitude), 8));
	__mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
	return _mm512_mask_mov_ps(_mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256)), nan, _mm512_set1_ps(__builtin_nanf("")));
}

// Rows of floats, of a size in bytes, can end within a group.
KERN_INLINE void kern_dequantize_floats(const char *x, size_t size, char *to, int64_t n, bool bf16, __m512 (*load)(const void *)) {
	for (; n >= KERN_GROUP; n -= KERN_GROUP, x += KERN_GROUP * size) {
		to = kern_store(to, bf16, load(x), load(x + KERN_HALF_GROUP * size));
	}
	if (n > 0) {
		char rest[KERN_GROUP * sizeof(uint16_t)] = {0}, group[KERN_GROUP * sizeof(float)];
		memcpy(rest, x, n * size);
		kern_store(group, bf16, load(rest), load(rest + KERN_HALF_GROUP * size));
		memcpy(to, group, n * (bf16 ? sizeof(uint16_t) : sizeof(float)));
	}
}

#define KERN_FLOATS(type, size) \
	KERN_INLINE void kern_dequantize_##type(const void *from, char *to, int64_t n, bool bf16) { \
		kern_dequantize_floats(from, size, to, n, bf16, kern_load_##type); \
	}
KERN_FLOATS(f16, 2)
KERN_FLOATS(bf16, 2)
KERN_FLOATS(f8_e4m3, 1)

KERN_INLINE void kern_dequantize_q8_0(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_q8_0 *b = from;
	for (; n > 0; n -= KERN_GROUP, b++) {
		float d = _cvtsh_ss(b->d);
		to = kern_store_scaled(to, bf16, kern_load_bytes(b->q), d, d);
	}
}

// 4 bits per element: the low nibbles are the first half of the group.
KERN_INLINE char *kern_store_nibbles(char *to, bool bf16, const uint8_t *group, float d, __m512 values) {
	__m512 scaled = _mm512_mul_ps(_mm512_set1_ps(d), values);
	__m128i q = _mm_loadu_si128((const void *)group);
	return kern_store_looked_up(to, bf16, scaled, scaled, kern_extract_bits(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), 0, 4));
}

KERN_INLINE void kern_dequantize_q4(const void *from, char *to, int64_t n, bool bf16, __m512 values) {
	const struct kern_q4 *b = from;
	for (; n > 0; n -= KERN_GROUP, b++) {
		to = kern_store_nibbles(to, bf16, b->q, _cvtsh_ss(b->d), values);
	}
}

KERN_INLINE void kern_dequantize_q4_0(const void *from, char *to, int64_t n, bool bf16) {
	kern_dequantize_q4(from, to, n, bf16, kern_from_i8(_mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)));
}

KERN_INLINE __m512 kern_iq4_values(void) {
	return kern_from_i8(_mm_loadu_si128((const void *)kern_iq4_table));
}

KERN_INLINE void kern_dequantize_iq4_nl(const void *from, char *to, int64_t n, bool bf16) {
	kern_dequantize_q4(from, to, n, bf16, kern_iq4_values());
}

KERN_INLINE __m512 kern_e2m1_values(void) {
	return kern_from_i8(_mm_loadu_si128((const void *)kern_e2m1_table));
}

KERN_INLINE void kern_dequantize_mxfp4(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_mxfp4 *b = from;
	for (; n > 0; n -= KERN_GROUP, b++) {
		to = kern_store_nibbles(to, bf16, b->q, kern_half_e8m0(b->e), kern_e2m1_values());
	}
}

// Each half of a group has a scale, E4M3 without a sign, and eight bytes, whose low nibbles are the
// first half of that half.
struct kern_nvfp4 {
	uint8_t d[4], q[KERN_GROUP];
};

KERN_INLINE float kern_half_e4m3(uint8_t x) {
	return x == 0x7f ? 0 : kern_from_bits((uint32_t)(x & 0x7f) << 20) * 0x1p119f; // other bias, halved; 0x7f is NaN
}

KERN_INLINE void kern_dequantize_nvfp4(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_nvfp4 *b = from;
	const __m512 values = kern_e2m1_values();
	for (; n > 0; n -= 2 * KERN_GROUP, b++) {
		for (int i = 0; i < 2; i++) {
			__m512 first = _mm512_mul_ps(_mm512_set1_ps(kern_half_e4m3(b->d[2 * i])), values);
			__m512 second = _mm512_mul_ps(_mm512_set1_ps(kern_half_e4m3(b->d[2 * i + 1])), values);
			__m128i low = _mm_loadu_si128((const void *)(b->q + i * KERN_HALF_GROUP)), high = _mm_srli_epi16(low, 4);
			__m256i q = kern_extract_bits(_mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high)), 0, 4);
			q = _mm256_or_si256(q, _mm256_set_m128i(_mm_set1_epi8(16), _mm_setzero_si128())); // from the second table
			to = kern_store_looked_up(to, bf16, first, second, q);
		}
	}
}

KERN_INLINE void kern_dequantize_iq4_xs(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_iq4_xs *b = from;
	const __m512 values = kern_iq4_values();
	for (; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		float d = _cvtsh_ss(b->d);
		for (int i = 0; i < KERN_GROUPS; i++) {
			to = kern_store_nibbles(to, bf16, b->q + i * KERN_HALF_GROUP, d * (float)kern_iq4_xs_scale(b, i), values);
		}
	}
}

struct kern_k_scales {
	float d[KERN_GROUPS], min[KERN_GROUPS];
};

KERN_INLINE void kern_k_scale_group(float *to, uint32_t first, uint32_t second, uint16_t unit) {
	__m128i bytes = _mm_set_epi32(0, 0, (int)second, (int)first);
	_mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(unit)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))));
}

// 6-bit scales. The first four groups have a byte each; the other groups have four bits of their
// own, and two bits above the scale of an earlier group.
KERN_INLINE struct kern_k_scales kern_k_scales(const struct kern_k_head *head) {
	enum { SIX = 0x3f3f3f3f, UPPER = 0x30303030, LOWER = 0x0f0f0f0f };
	struct kern_k_scales s;
	uint32_t bits[3];
	memcpy(bits, head->scales, sizeof bits);
	kern_k_scale_group(s.d, bits[0] & SIX, (bits[0] >> 2 & UPPER) | (bits[2] & LOWER), head->d);
	kern_k_scale_group(s.min, bits[1] & SIX, (bits[1] >> 2 & UPPER) | (bits[2] >> 4 & LOWER), head->min);
	return s;
}

// Returns the values of a group for q = first to first + 15.
KERN_INLINE __m512 kern_k_values(const struct kern_k_scales *s, int group, float first) {
	const __m512 steps = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	__m512 q = _mm512_add_ps(_mm512_set1_ps(first), steps);
	return _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(s->d[group]), q), _mm512_set1_ps(s->min[group]));
}

KERN_INLINE void kern_dequantize_q4_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_q4_k *b = from;
	for (; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		struct kern_k_scales s = kern_k_scales(&b->head);
		for (int i = 0; i < KERN_GROUPS; i++) {
			__m512 values = kern_k_values(&s, i, 0);
			to = kern_store_looked_up(to, bf16, values, values, kern_extract_bits(kern_load_bytes(b->q + i / 2 * KERN_GROUP), i % 2 * 4, 4));
		}
	}
}

KERN_INLINE void kern_dequantize_q5_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_q5_k *b = from;
	for (; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		struct kern_k_scales s = kern_k_scales(&b->head);
		__m256i high = kern_load_bytes(b->high);
		for (int i = 0; i < KERN_GROUPS; i++) {
			__m256i q = kern_extract_bits(kern_load_bytes(b->q + i / 2 * KERN_GROUP), i % 2 * 4, 4);
			q = _mm256_or_si256(q, _mm256_slli_epi16(kern_extract_bits(high, i, 1), 4));
			to = kern_store_looked_up(to, bf16, kern_k_values(&s, i, 0), kern_k_values(&s, i, 16), q);
		}
	}
}

KERN_INLINE void kern_dequantize_q6_k(const void *from, char *to, int64_t n, bool bf16) {
	const struct kern_q6_k *b = from;
	for (; n > 0; n -= KERN_SUPER_BLOCK, b++) {
		float d[KERN_SUPER_BLOCK / KERN_HALF_GROUP];
		__m512 scales = kern_from_i8(_mm_loadu_si128((const void *)b->scales));
		_mm512_storeu_ps(d, _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(b->d)), scales));
		for (int i = 0; i < KERN_GROUPS; i++) {
			int four = i / 4, j = i % 4;
			__m256i low = kern_extract_bits(kern_load_bytes(b->low + (2 * four + j % 2) * KERN_GROUP), j / 2 * 4, 4);
			__m256i high = kern_extract_bits(kern_load_bytes(b->high + four * KERN_GROUP), 2 * j, 2);
			__m256i q = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32));
			to = kern_store_scaled(to, bf16, q, d[2 * i], d[2 * i + 1]);
		}
	}
}

#define KERN_EACH_TYPE(X) \
	X(F16, f16) X(BF16, bf16) X(F8_E4M3, f8_e4m3) X(Q8_0, q8_0) X(Q4_0, q4_0) X(IQ4_NL, iq4_nl) X(IQ4_XS, iq4_xs) \
	X(MXFP4, mxfp4) X(NVFP4, nvfp4) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k)

#define KERN_CONVERSIONS(TYPE, type) \
	KERN_AVX512 static void kern_##type##_to_bf16(const void *from, uint16_t *to, int64_t n) { \
		kern_dequantize_##type(from, (char *)to, n, true); \
	} \
	KERN_AVX512 static void kern_##type##_to_f32(const void *from, float *to, int64_t n) { \
		kern_dequantize_##type(from, (char *)to, n, false); \
	}
KERN_EACH_TYPE(KERN_CONVERSIONS)

kern_to_bf16_t kern_vector_to_bf16(enum ggml_type type) {
	if (!__builtin_cpu_supports("avx512bf16")) {
		return NULL;
	}
	switch (type) {
#define KERN_CASE(TYPE, type) case GGML_TYPE_##TYPE: return kern_##type##_to_bf16;
	KERN_EACH_TYPE(KERN_CASE)
#undef KERN_CASE
	default: return NULL;
	}
}

ggml_to_float_t kern_vector_to_f32(enum ggml_type type) {
	if (!kern_isa_avx512()) {
		return kern_isa_f16c() ? kern_avx2_to_f32(type) : NULL;
	}
	switch (type) {
#define KERN_CASE(TYPE, type) case GGML_TYPE_##TYPE: return kern_##type##_to_f32;
	KERN_EACH_TYPE(KERN_CASE)
#undef KERN_CASE
	default: return NULL;
	}
}

#else

kern_to_bf16_t kern_vector_to_bf16(enum ggml_type type) { return NULL; }
ggml_to_float_t kern_vector_to_f32(enum ggml_type type) { return NULL; }

#endif
