#include "gemv_vnni.h"
#include "gemv_vnni_k.h"
#include "isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include "gemv_vnni_blocks.h"

#include <string.h>

enum { KERN_PART = KERN_PART_BLOCKS * KERN_BLOCK };

// The part of a packed column for one part of a row, with the correction of each lane.
struct kern_vnni_part {
	_Alignas(KERN_REGISTER) int8_t q[KERN_PART / KERN_REGISTER][KERN_REGISTER];
	int32_t correction[KERN_PART / KERN_REGISTER][KERN_LANES];
	float d[KERN_PART_BLOCKS];
};

static size_t kern_vnni_size(int64_t k) { return (size_t)((k + KERN_PART - 1) / KERN_PART) * sizeof(struct kern_vnni_part); }

// Adds a register of products to sums, each lane scaled by its block's scales in the row and in the
// column.
KERN_VNNI_INLINE __m512 kern_add_scaled(__m512 sums, __m512i products, __m512i blocks, __m256 scales, const float *d) {
	__m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(scales, _mm256_load_ps(d)));
	return _mm512_fmadd_ps(_mm512_permutexvar_ps(blocks, scale), _mm512_cvtepi32_ps(products), sums);
}

// Q8_0: a register is two blocks.

KERN_VNNI static void kern_pack_q8_0(const float *x, void *column, int64_t k) {
	struct kern_vnni_part *parts = column;
	memset(parts, 0, kern_vnni_size(k));
	for (int64_t i = 0; i < k / KERN_BLOCK; i++, x += KERN_BLOCK) {
		struct kern_vnni_part *p = parts + i / KERN_PART_BLOCKS;
		int block = (int)(i % KERN_PART_BLOCKS), r = block / 2, half = block % 2;
		__m256i q = kern_quantize_block(x, &p->d[block]);
		_mm256_storeu_si256((void *)(p->q[r] + half * KERN_BLOCK), q);
		_mm256_storeu_si256((void *)(p->correction[r] + half * KERN_LANES / 2), kern_correction(q, KERN_ZERO_POINT_Q8_0));
	}
}

KERN_VNNI_INLINE void kern_accumulate_part_q8_0(__m512 *sums, const struct kern_q8_0 *w, const char *columns, size_t stride, const int n) {
	const __m512i pair = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
	__m256 scales = kern_scales_q8_0(w);
#pragma GCC unroll 4
	for (int i = 0; i < KERN_PART_BLOCKS / 2; i++, w += 2) {
		__m256i first = _mm256_loadu_si256((const void *)w[0].q), second = _mm256_loadu_si256((const void *)w[1].q);
		__m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
		__m512i q = _mm512_xor_si512(both, _mm512_set1_epi8((char)KERN_ZERO_POINT_Q8_0));
		__m512i blocks = _mm512_add_epi32(pair, _mm512_set1_epi32(2 * i));
#pragma GCC unroll 4
		for (int j = 0; j < n; j++) {
			const struct kern_vnni_part *x = (const void *)(columns + (size_t)j * stride);
			__m512i products = _mm512_dpbusd_epi32(_mm512_load_si512(x->correction[i]), q, _mm512_load_si512(x->q[i]));
			sums[j] = kern_add_scaled(sums[j], products, blocks, scales, x->d);
		}
	}
}

// Q4_0: a register holds the first or the second halves of four blocks. Both halves of a block add to one
// sum.

KERN_VNNI static void kern_pack_q4_0(const float *x, void *column, int64_t k) {
	struct kern_vnni_part *parts = column;
	memset(parts, 0, kern_vnni_size(k));
	for (int64_t i = 0; i < k / KERN_BLOCK; i++, x += KERN_BLOCK) {
		struct kern_vnni_part *p = parts + i / KERN_PART_BLOCKS;
		int block = (int)(i % KERN_PART_BLOCKS), r = block / 4 * 2, quarter = block % 4;
		__m256i q = kern_quantize_block(x, &p->d[block]), correction = kern_correction(q, KERN_ZERO_POINT_Q4_0);
		_mm_storeu_si128((void *)(p->q[r] + quarter * KERN_BLOCK / 2), _mm256_castsi256_si128(q));
		_mm_storeu_si128((void *)(p->q[r + 1] + quarter * KERN_BLOCK / 2), _mm256_extracti128_si256(q, 1));
		_mm_storeu_si128((void *)(p->correction[r] + quarter * KERN_LANES / 4), _mm_add_epi32(_mm256_castsi256_si128(correction), _mm256_extracti128_si256(correction, 1)));
	}
}

KERN_VNNI_INLINE __m128i kern_load_q4(const struct kern_q4 *w) { return _mm_loadu_si128((const void *)w->q); }

KERN_VNNI_INLINE void kern_accumulate_part_q4_0(__m512 *sums, const struct kern_q4 *w, const char *columns, size_t stride, const int n) {
	const __m512i four = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
	const __m512i bits = _mm512_set1_epi8(15);
	__m256 scales = kern_scales_q4_0(w);
#pragma GCC unroll 2
	for (int i = 0; i < KERN_PART_BLOCKS / 4; i++, w += 4) {
		__m512i q = _mm512_castsi128_si512(kern_load_q4(w));
		q = _mm512_inserti32x4(q, kern_load_q4(w + 1), 1);
		q = _mm512_inserti32x4(q, kern_load_q4(w + 2), 2);
		q = _mm512_inserti32x4(q, kern_load_q4(w + 3), 3);
		__m512i first = _mm512_and_si512(q, bits), second = _mm512_and_si512(_mm512_srli_epi16(q, 4), bits);
		__m512i blocks = _mm512_add_epi32(four, _mm512_set1_epi32(4 * i));
#pragma GCC unroll 4
		for (int j = 0; j < n; j++) {
			const struct kern_vnni_part *x = (const void *)(columns + (size_t)j * stride);
			__m512i products = _mm512_dpbusd_epi32(_mm512_load_si512(x->correction[2 * i]), first, _mm512_load_si512(x->q[2 * i]));
			products = _mm512_dpbusd_epi32(products, second, _mm512_load_si512(x->q[2 * i + 1]));
			sums[j] = kern_add_scaled(sums[j], products, blocks, scales, x->d);
		}
	}
}

// The functions for both types differ only in how they multiply a part. The last part of a row may have fewer blocks.
#define KERN_VNNI_BLOCKS(type, block) \
	KERN_VNNI_INLINE void kern_dots_##type(__m512 *sums, int64_t k, const char *row, const char *columns, size_t stride, const int n) { \
		enum { SIZE = KERN_PART_BLOCKS * sizeof(struct block) }; \
		for (; k >= KERN_PART; k -= KERN_PART, row += SIZE, columns += sizeof(struct kern_vnni_part)) { \
			kern_prefetch_ahead(row, SIZE); \
			kern_accumulate_part_##type(sums, (const void *)row, columns, stride, n); \
		} \
		if (k > 0) { \
			struct block rest[KERN_PART_BLOCKS] = {0}; \
			kern_prefetch_ahead(row, SIZE); \
			memcpy(rest, row, (size_t)k / KERN_BLOCK * sizeof *rest); \
			kern_accumulate_part_##type(sums, rest, columns, stride, n); \
		} \
	} \
	KERN_VNNI_MULTIPLY(type)

KERN_VNNI_BLOCKS(q8_0, kern_q8_0)
KERN_VNNI_BLOCKS(q4_0, kern_q4)

const struct kern_gemv_kernel *kern_vnni_of(enum ggml_type type, int64_t n) {
	bool panel = n >= KERN_PANEL_FROM;
	static const struct kern_gemv_kernel q8_0 = {kern_vnni_size, kern_pack_q8_0, kern_multiply_q8_0};
	static const struct kern_gemv_kernel q4_0 = {kern_vnni_size, kern_pack_q4_0, kern_multiply_q4_0};
	if (!kern_isa_avx512() || !__builtin_cpu_supports("avx512vnni")) {
		return NULL;
	}
	switch (type) {
	case GGML_TYPE_Q8_0: return panel ? &kern_panel_q8_0 : &q8_0;
	case GGML_TYPE_Q4_0: return panel ? &kern_panel_q4_0 : &q4_0;
	case GGML_TYPE_Q4_K: return panel ? &kern_panel_q4_k : &kern_vnni_q4_k;
	case GGML_TYPE_Q5_K: return panel ? &kern_panel_q5_k : &kern_vnni_q5_k;
	case GGML_TYPE_Q6_K: return panel ? &kern_panel_q6_k : &kern_vnni_q6_k;
	default: return NULL;
	}
}

#else

const struct kern_gemv_kernel *kern_vnni_of(enum ggml_type type, int64_t n) { return NULL; }

#endif
