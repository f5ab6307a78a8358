//go:build ignore

#include "dots.h"
#include "blocks.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <string.h>

#define AVX512_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,f16c")))
#define AVX512_VNNI_INLINE AVX512_VNNI static inline __attribute__((always_inline))

// Rows are multiplied in parts of eight blocks, by up to four columns at once, whose sums are in registers.
enum { PART_BLOCKS = 8, PART = PART_BLOCKS * GOGGML_BLOCK, REGISTER = 64, LANES = REGISTER / 4, AT_ONCE = 4 };

// The part of a column that meets a part of a row. The instruction takes the row's elements without sign: they are
// moved up, and what that adds to each lane's sum of products is taken off beforehand.
struct goggml_part {
	_Alignas(REGISTER) int8_t q[PART / REGISTER][REGISTER];
	int32_t start[PART / REGISTER][LANES];
	float d[PART_BLOCKS];
};

static size_t goggml_parts_size(int64_t k) { return (size_t)((k + PART - 1) / PART) * sizeof(struct goggml_part); }

AVX512_VNNI_INLINE __m128i goggml_round_half(__m512 x, float scale) {
	return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(scale))));
}

// A block of a column, of 8 bits, and its scale.
AVX512_VNNI_INLINE __m256i goggml_round_block(const float *x, float *d) {
	__m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + GOGGML_BLOCK / 2);
	float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
	float scale = largest > 0 ? 127 / largest : 0;
	*d = _cvtsh_ss(_cvtss_sh(largest / 127, _MM_FROUND_TO_NEAREST_INT));
	return _mm256_set_m128i(goggml_round_half(second, scale), goggml_round_half(first, scale));
}

// What moving a row up by so much adds to the sums of four products each, taken off.
AVX512_VNNI_INLINE __m256i goggml_start(__m256i q, int up) {
	__m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
	return _mm256_mullo_epi32(sums, _mm256_set1_epi32(-up));
}

// The scales of eight blocks, each in the lower or the upper half of four bytes in turn.
AVX512_VNNI_INLINE __m256 goggml_scales(__m256i fours) {
	const __m256i halves = _mm256_setr_epi32(0, 16, 0, 16, 0, 16, 0, 16);
	return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srlv_epi32(fours, halves)));
}

// Adds a register of products to sums: each lane with the scales that its block has in the row and in the column.
AVX512_VNNI_INLINE __m512 goggml_add_scaled(__m512 sums, __m512i products, __m512i blocks, __m256 scales, const float *d) {
	__m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(scales, _mm256_load_ps(d)));
	return _mm512_fmadd_ps(_mm512_permutexvar_ps(blocks, scale), _mm512_cvtepi32_ps(products), sums);
}

// Q8_0: a register is two blocks.

enum { UP_Q8_0 = 128 };

AVX512_VNNI static void goggml_lay_out_q8_0(const float *x, void *column, int64_t k) {
	struct goggml_part *parts = column;
	memset(parts, 0, goggml_parts_size(k));
	for (int64_t i = 0; i < k / GOGGML_BLOCK; i++, x += GOGGML_BLOCK) {
		struct goggml_part *p = parts + i / PART_BLOCKS;
		int block = (int)(i % PART_BLOCKS), r = block / 2, half = block % 2;
		__m256i q = goggml_round_block(x, &p->d[block]);
		_mm256_storeu_si256((void *)(p->q[r] + half * GOGGML_BLOCK), q);
		_mm256_storeu_si256((void *)(p->start[r] + half * LANES / 2), goggml_start(q, UP_Q8_0));
	}
}

AVX512_VNNI_INLINE __m256 goggml_scales_q8_0(const struct goggml_q8_0 *w) {
	const __m512i four = _mm512_setr_epi32(0, 8, 17, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m512i more = _mm512_setr_epi32(0, 0, 0, 0, 2, 10, 19, 27, 0, 0, 0, 0, 0, 0, 0, 0);
	const char *bytes = (const char *)w;
	__m512i low = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes), four, _mm512_loadu_si512(bytes + REGISTER));
	__m512i high = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes + 2 * REGISTER), more, _mm512_loadu_si512(bytes + 3 * REGISTER));
	return goggml_scales(_mm256_blend_epi32(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high), 0xf0));
}

AVX512_VNNI_INLINE void goggml_add_part_q8_0(__m512 *sums, const struct goggml_q8_0 *w, const char *columns, size_t distance, const int n) {
	const __m512i pair = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
	__m256 scales = goggml_scales_q8_0(w);
#pragma GCC unroll 4
	for (int i = 0; i < PART_BLOCKS / 2; i++, w += 2) {
		__m256i first = _mm256_loadu_si256((const void *)w[0].q), second = _mm256_loadu_si256((const void *)w[1].q);
		__m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
		__m512i q = _mm512_xor_si512(both, _mm512_set1_epi8((char)UP_Q8_0));
		__m512i blocks = _mm512_add_epi32(pair, _mm512_set1_epi32(2 * i));
#pragma GCC unroll 4
		for (int j = 0; j < n; j++) {
			const struct goggml_part *x = (const void *)(columns + (size_t)j * distance);
			__m512i products = _mm512_dpbusd_epi32(_mm512_load_si512(x->start[i]), q, _mm512_load_si512(x->q[i]));
			sums[j] = goggml_add_scaled(sums[j], products, blocks, scales, x->d);
		}
	}
}

// Q4_0: a register is the first or the second halves of four blocks. Those of the same blocks have one sum.

enum { UP_Q4_0 = 8 };

AVX512_VNNI static void goggml_lay_out_q4_0(const float *x, void *column, int64_t k) {
	struct goggml_part *parts = column;
	memset(parts, 0, goggml_parts_size(k));
	for (int64_t i = 0; i < k / GOGGML_BLOCK; i++, x += GOGGML_BLOCK) {
		struct goggml_part *p = parts + i / PART_BLOCKS;
		int block = (int)(i % PART_BLOCKS), r = block / 4 * 2, quarter = block % 4;
		__m256i q = goggml_round_block(x, &p->d[block]), start = goggml_start(q, UP_Q4_0);
		_mm_storeu_si128((void *)(p->q[r] + quarter * GOGGML_BLOCK / 2), _mm256_castsi256_si128(q));
		_mm_storeu_si128((void *)(p->q[r + 1] + quarter * GOGGML_BLOCK / 2), _mm256_extracti128_si256(q, 1));
		_mm_storeu_si128((void *)(p->start[r] + quarter * LANES / 4), _mm_add_epi32(_mm256_castsi256_si128(start), _mm256_extracti128_si256(start, 1)));
	}
}

AVX512_VNNI_INLINE __m256 goggml_scales_q4_0(const struct goggml_q4 *w) {
	const __m512i all = _mm512_setr_epi32(0, 4, 9, 13, 18, 22, 27, 31, 0, 0, 0, 0, 0, 0, 0, 0);
	const char *bytes = (const char *)w;
	return goggml_scales(_mm512_castsi512_si256(_mm512_permutex2var_epi32(_mm512_loadu_si512(bytes), all, _mm512_loadu_si512(bytes + REGISTER))));
}

AVX512_VNNI_INLINE __m128i goggml_bytes_q4(const struct goggml_q4 *w) { return _mm_loadu_si128((const void *)w->q); }

AVX512_VNNI_INLINE void goggml_add_part_q4_0(__m512 *sums, const struct goggml_q4 *w, const char *columns, size_t distance, const int n) {
	const __m512i four = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
	const __m512i bits = _mm512_set1_epi8(15);
	__m256 scales = goggml_scales_q4_0(w);
#pragma GCC unroll 2
	for (int i = 0; i < PART_BLOCKS / 4; i++, w += 4) {
		__m512i q = _mm512_castsi128_si512(goggml_bytes_q4(w));
		q = _mm512_inserti32x4(q, goggml_bytes_q4(w + 1), 1);
		q = _mm512_inserti32x4(q, goggml_bytes_q4(w + 2), 2);
		q = _mm512_inserti32x4(q, goggml_bytes_q4(w + 3), 3);
		__m512i first = _mm512_and_si512(q, bits), second = _mm512_and_si512(_mm512_srli_epi16(q, 4), bits);
		__m512i blocks = _mm512_add_epi32(four, _mm512_set1_epi32(4 * i));
#pragma GCC unroll 4
		for (int j = 0; j < n; j++) {
			const struct goggml_part *x = (const void *)(columns + (size_t)j * distance);
			__m512i products = _mm512_dpbusd_epi32(_mm512_load_si512(x->start[2 * i]), first, _mm512_load_si512(x->q[2 * i]));
			products = _mm512_dpbusd_epi32(products, second, _mm512_load_si512(x->q[2 * i + 1]));
			sums[j] = goggml_add_scaled(sums[j], products, blocks, scales, x->d);
		}
	}
}

// The functions for both types differ in the part's alone.
#define GOGGML_ADD_DOTS(type, block) \
	AVX512_VNNI_INLINE void goggml_add_some_##type(float *y, int64_t apart, int64_t k, \
			const struct block *w, const char *columns, size_t distance, const int n) { \
		__m512 sums[AT_ONCE] = {0}; \
		int64_t blocks = k / GOGGML_BLOCK; \
		for (; blocks >= PART_BLOCKS; blocks -= PART_BLOCKS, w += PART_BLOCKS, columns += sizeof(struct goggml_part)) { \
			goggml_add_part_##type(sums, w, columns, distance, n); \
		} \
		if (blocks > 0) { \
			struct block rest[PART_BLOCKS] = {0}; \
			memcpy(rest, w, (size_t)blocks * sizeof *w); \
			goggml_add_part_##type(sums, rest, columns, distance, n); \
		} \
		_Pragma("GCC unroll 4") \
		for (int j = 0; j < n; j++) { y[j * apart] += _mm512_reduce_add_ps(sums[j]); } \
	} \
	AVX512_VNNI static void goggml_add_##type(float *y, int64_t apart, int64_t k, \
			const void *row, const char *columns, size_t distance, int64_t n) { \
		for (; n >= AT_ONCE; n -= AT_ONCE, y += AT_ONCE * apart, columns += AT_ONCE * distance) { \
			goggml_add_some_##type(y, apart, k, row, columns, distance, AT_ONCE); \
		} \
		switch (n) { \
		case 3: goggml_add_some_##type(y, apart, k, row, columns, distance, 3); break; \
		case 2: goggml_add_some_##type(y, apart, k, row, columns, distance, 2); break; \
		case 1: goggml_add_some_##type(y, apart, k, row, columns, distance, 1); break; \
		} \
	}

GOGGML_ADD_DOTS(q8_0, goggml_q8_0)
GOGGML_ADD_DOTS(q4_0, goggml_q4)

const struct goggml_dots *goggml_dots_of(enum ggml_type type) {
	static const struct goggml_dots q8_0 = {goggml_parts_size, goggml_lay_out_q8_0, goggml_add_q8_0};
	static const struct goggml_dots q4_0 = {goggml_parts_size, goggml_lay_out_q4_0, goggml_add_q4_0};
	if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw")) {
		return NULL;
	}
	switch (type) {
	case GGML_TYPE_Q8_0: return &q8_0;
	case GGML_TYPE_Q4_0: return &q4_0;
	default: return NULL;
	}
}

#else

const struct goggml_dots *goggml_dots_of(enum ggml_type type) { return NULL; }

#endif
