//go:build ignore

#include "dot_q8_0.h"
#include "q8_0.h"

#include <string.h>

// What is multiplied at once: eight blocks, in pairs that fill a register.
enum { BLOCKS = 8, PAIRS = BLOCKS / 2, PAIR = 2 * GOGGML_Q8_0 };

// The part of a column that meets eight blocks of a row. The instruction takes the row's bytes without sign: they are
// moved up by 128, and what that adds to each sum of four products is taken off beforehand.
struct goggml_part_q8_0 {
	struct {
		_Alignas(PAIR) int8_t q[PAIR];
		int32_t start[PAIR / 4];
	} pairs[PAIRS];
	float d[BLOCKS];
};

static int64_t goggml_parts_q8_0(int64_t k) { return (k + BLOCKS * GOGGML_Q8_0 - 1) / (BLOCKS * GOGGML_Q8_0); }

size_t goggml_column_size_q8_0(int64_t k) { return (size_t)goggml_parts_q8_0(k) * sizeof(struct goggml_part_q8_0); }

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>

#define AVX512_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,f16c")))

bool goggml_has_dot_q8_0(void) {
	return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

AVX512_VNNI static inline __m128i goggml_rounded_q8_0(__m512 x, float scale) {
	return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(scale))));
}

AVX512_VNNI void goggml_column_q8_0(const float *x, void *column, int64_t k) {
	struct goggml_part_q8_0 *part = column;
	memset(part, 0, goggml_column_size_q8_0(k));
	for (int64_t i = 0; i < k / GOGGML_Q8_0; i++, x += GOGGML_Q8_0) {
		__m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + GOGGML_Q8_0 / 2);
		float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
		float scale = largest > 0 ? 127 / largest : 0;
		__m256i q = _mm256_set_m128i(goggml_rounded_q8_0(second, scale), goggml_rounded_q8_0(first, scale));
		__m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
		struct goggml_part_q8_0 *p = part + i / BLOCKS;
		int block = (int)(i % BLOCKS), pair = block / 2, half = block % 2;
		p->d[block] = _cvtsh_ss(_cvtss_sh(largest / 127, _MM_FROUND_TO_NEAREST_INT));
		_mm256_storeu_si256((void *)(p->pairs[pair].q + half * GOGGML_Q8_0), q);
		_mm256_storeu_si256((void *)(p->pairs[pair].start + half * GOGGML_Q8_0 / 4), _mm256_mullo_epi32(sums, _mm256_set1_epi32(-128)));
	}
}

// The scales of eight blocks, of which each lies in the lower or the upper half of four bytes.
AVX512_VNNI static inline __m256 goggml_scales_q8_0(const struct goggml_q8_0 *row) {
	const __m512i four = _mm512_setr_epi32(0, 8, 17, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m512i more = _mm512_setr_epi32(0, 0, 0, 0, 2, 10, 19, 27, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m256i halves = _mm256_setr_epi32(0, 16, 0, 16, 0, 16, 0, 16);
	const char *bytes = (const char *)row;
	__m512i low = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes), four, _mm512_loadu_si512(bytes + 64));
	__m512i high = _mm512_permutex2var_epi32(_mm512_loadu_si512(bytes + 128), more, _mm512_loadu_si512(bytes + 192));
	__m256i all = _mm256_blend_epi32(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high), 0xf0);
	return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srlv_epi32(all, halves)));
}

// Columns that are multiplied at once, with as many sums in registers.
enum { AT_ONCE = 4 };

// Adds the products of eight blocks with the parts of n columns, which lie so many bytes apart.
AVX512_VNNI static inline __attribute__((always_inline)) void goggml_add_parts_q8_0(__m512 *sums, const struct goggml_q8_0 *w,
		const char *columns, size_t distance, const int n) {
	const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
	const __m512i up = _mm512_set1_epi8((char)128);
	__m256 scales = goggml_scales_q8_0(w);
#pragma GCC unroll 4
	for (int i = 0; i < PAIRS; i++, w += 2) {
		__m256i first = _mm256_loadu_si256((const void *)w[0].q), second = _mm256_loadu_si256((const void *)w[1].q);
		__m512i q = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1), up);
#pragma GCC unroll 4
		for (int j = 0; j < n; j++) {
			const struct goggml_part_q8_0 *x = (const void *)(columns + (size_t)j * distance);
			__m512 d = _mm512_castps256_ps512(_mm256_mul_ps(scales, _mm256_load_ps(x->d)));
			__m512i sum = _mm512_dpbusd_epi32(_mm512_load_si512(x->pairs[i].start), q, _mm512_load_si512(x->pairs[i].q));
			__m512 scale = _mm512_permutexvar_ps(_mm512_add_epi32(halves, _mm512_set1_epi32(2 * i)), d);
			sums[j] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum), sums[j]);
		}
	}
}

AVX512_VNNI static inline __attribute__((always_inline)) void goggml_add_some_dots_q8_0(float *y, int64_t apart, int64_t k,
		const struct goggml_q8_0 *w, const char *columns, size_t distance, const int n) {
	__m512 sums[AT_ONCE] = {0};
	int64_t blocks = k / GOGGML_Q8_0;
	for (; blocks >= BLOCKS; blocks -= BLOCKS, w += BLOCKS, columns += sizeof(struct goggml_part_q8_0)) {
		goggml_add_parts_q8_0(sums, w, columns, distance, n);
	}
	if (blocks > 0) {
		struct goggml_q8_0 rest[BLOCKS] = {0};
		memcpy(rest, w, (size_t)blocks * sizeof *w);
		goggml_add_parts_q8_0(sums, rest, columns, distance, n);
	}
#pragma GCC unroll 4
	for (int j = 0; j < n; j++) {
		y[j * apart] += _mm512_reduce_add_ps(sums[j]);
	}
}

AVX512_VNNI void goggml_add_dots_q8_0(float *y, int64_t apart, int64_t k, const void *row, const char *columns, size_t distance, int64_t n) {
	for (; n >= AT_ONCE; n -= AT_ONCE, y += AT_ONCE * apart, columns += AT_ONCE * distance) {
		goggml_add_some_dots_q8_0(y, apart, k, row, columns, distance, AT_ONCE);
	}
	switch (n) {
	case 3: goggml_add_some_dots_q8_0(y, apart, k, row, columns, distance, 3); break;
	case 2: goggml_add_some_dots_q8_0(y, apart, k, row, columns, distance, 2); break;
	case 1: goggml_add_some_dots_q8_0(y, apart, k, row, columns, distance, 1); break;
	}
}

#else

bool goggml_has_dot_q8_0(void) { return false; }
void goggml_column_q8_0(const float *x, void *column, int64_t k) {}
void goggml_add_dots_q8_0(float *y, int64_t apart, int64_t k, const void *row, const char *columns, size_t distance, int64_t n) {}

#endif
