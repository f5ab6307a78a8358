#include "gemv_avx2.h"
#include "blocks.h"
#include "isa.h"

#if defined(__x86_64__)

#include "gemv_avx2_row.h"

enum { KERN_PART_BLOCKS = KERN_PART / KERN_BLOCK, KERN_ZERO_POINT_Q4_0 = 8 };

// The part of a packed column, with the sum of each block.
struct kern_block_column {
	_Alignas(32) int8_t q[KERN_PART];
	float d[KERN_PART_BLOCKS];
	float sums[KERN_PART_BLOCKS];
};

static size_t kern_column_size(int64_t k) { return (size_t)((k + KERN_PART - 1) / KERN_PART) * sizeof(struct kern_block_column); }

// Rounds blocks to 8 bits with a scale in F16, as Q8_0 does.
KERN_F16C static void kern_pack_blocks(const float *x, void *column, int64_t k) {
	struct kern_block_column *parts = column;
	memset(parts, 0, kern_column_size(k));
	for (int64_t i = 0; i < k / KERN_BLOCK; i++, x += KERN_BLOCK) {
		struct kern_block_column *p = parts + i / KERN_PART_BLOCKS;
		int64_t block = i % KERN_PART_BLOCKS;
		float largest = kern_max_lanes(kern_largest(x));
		__m256i q = kern_round(x, largest > 0 ? 127 / largest : 0);
		_mm256_store_si256((void *)(p->q + block * KERN_BLOCK), q);
		__m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
		p->d[block] = _cvtsh_ss(_cvtss_sh(largest / 127, _MM_FROUND_TO_NEAREST_INT));
		p->sums[block] = p->d[block] * kern_sum_lanes(_mm256_cvtepi32_ps(sums));
	}
}

// The scales of the blocks of a row and a column, multiplied.
KERN_F16C_INLINE void kern_multiply_scales(float scales[KERN_GROUP][KERN_PART_BLOCKS], __m256 d, const char *columns, size_t stride, const int n) {
	KERN_UNROLL(j, n) {
		const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
		_mm256_storeu_ps(scales[j], _mm256_mul_ps(d, _mm256_load_ps(x->d)));
		KERN_IN_MEMORY(scales[j]);
	}
}

// Returns the scales of a row's blocks.
#define KERN_SCALES(w) _mm256_cvtph_ps(_mm_setr_epi16( \
	(int16_t)w[0].d, (int16_t)w[1].d, (int16_t)w[2].d, (int16_t)w[3].d, (int16_t)w[4].d, (int16_t)w[5].d, (int16_t)w[6].d, (int16_t)w[7].d))

// Adds the products of a register, which are sums of two, with a block's scale.
KERN_F16C_INLINE __m256 kern_add_block(__m256 sums, __m256i products, float scale) {
	__m256i fours = _mm256_madd_epi16(products, _mm256_set1_epi16(1));
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), _mm256_set1_ps(scale), sums);
}

// Q8_0: vpmaddubsw multiplies unsigned by signed elements, so the sign of an element of a row goes to the column's. No sum
// of two products exceeds 16 bits.

struct kern_unpacked_q8_0 {
	__m256i q[KERN_PART_BLOCKS];
	__m256 d;
};

KERN_F16C_INLINE void kern_unpack_q8_0(struct kern_unpacked_q8_0 *u, const struct kern_q8_0 *w) {
	u->d = KERN_SCALES(w);
	KERN_UNROLL(b, KERN_PART_BLOCKS) u->q[b] = _mm256_loadu_si256((const void *)w[b].q);
}

KERN_F16C_INLINE void kern_add_q8_0(__m256 *sums, const struct kern_unpacked_q8_0 *u, const char *columns, size_t stride, const int n) {
	float scales[KERN_GROUP][KERN_PART_BLOCKS];
	kern_multiply_scales(scales, u->d, columns, stride, n);
	__m256 s[KERN_GROUP]; // of the part alone, so that parts do not wait for each other
	KERN_UNROLL(j, n) s[j] = _mm256_setzero_ps();
	KERN_UNROLL(b, KERN_PART_BLOCKS) {
		__m256i q = u->q[b], magnitudes = _mm256_abs_epi8(q);
		KERN_IN_REGISTER(q);
		KERN_UNROLL(j, n) {
			const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
			__m256i signed_x = _mm256_sign_epi8(_mm256_load_si256((const void *)(x->q + b * KERN_BLOCK)), q);
			s[j] = kern_add_block(s[j], _mm256_maddubs_epi16(magnitudes, signed_x), scales[j][b]);
		}
	}
	KERN_UNROLL(j, n) sums[j] = _mm256_add_ps(sums[j], s[j]);
}

KERN_AVX2_MULTIPLY(q8_0, KERN_BLOCK, kern_q8_0, kern_unpacked_q8_0, kern_add_q8_0, kern_block_column)

// Q4_0: elements are multiplied as they are, from 0 to 15. The zero point's products are the sums of the column's blocks. A
// register holds the first or the last 16 elements of two blocks, which are four blocks apart: the sums of their products have
// one scale in each 128 bits.

enum { KERN_PAIRS = KERN_PART_BLOCKS / 2 };

KERN_F16C static void kern_pack_q4_0(const float *x, void *column, int64_t k) {
	struct kern_block_column *parts = column;
	kern_pack_blocks(x, column, k);
	for (struct kern_block_column *p = parts; k > 0; k -= KERN_PART, p++) {
		KERN_UNROLL(i, KERN_PAIRS) {
			__m256i first = _mm256_load_si256((void *)(p->q + i * KERN_BLOCK)), second = _mm256_load_si256((void *)(p->q + (i + KERN_PAIRS) * KERN_BLOCK));
			_mm256_store_si256((void *)(p->q + i * KERN_BLOCK), _mm256_permute2x128_si256(first, second, 0x20));
			_mm256_store_si256((void *)(p->q + (i + KERN_PAIRS) * KERN_BLOCK), _mm256_permute2x128_si256(first, second, 0x31));
		}
	}
}

struct kern_unpacked_q4_0 {
	__m256i first[KERN_PAIRS], second[KERN_PAIRS];
	__m256 d;
};

KERN_F16C_INLINE void kern_unpack_q4_0(struct kern_unpacked_q4_0 *u, const struct kern_q4 *w) {
	u->d = KERN_SCALES(w);
	KERN_UNROLL(i, KERN_PAIRS) {
		__m256i nibbles = _mm256_set_m128i(_mm_loadu_si128((const void *)w[i + KERN_PAIRS].q), _mm_loadu_si128((const void *)w[i].q));
		u->first[i] = _mm256_and_si256(nibbles, _mm256_set1_epi8(15));
		u->second[i] = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), _mm256_set1_epi8(15));
	}
}

// Adds the products of pair i, a constant, with one column.
KERN_F16C_INLINE __m256 kern_add_pair(__m256 sums, const struct kern_unpacked_q4_0 *u, const struct kern_block_column *x, __m256 scales, const int i) {
	__m256i first = _mm256_maddubs_epi16(u->first[i], _mm256_load_si256((const void *)(x->q + i * KERN_BLOCK)));
	__m256i second = _mm256_maddubs_epi16(u->second[i], _mm256_load_si256((const void *)(x->q + (i + KERN_PAIRS) * KERN_BLOCK)));
	__m256i fours = _mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1));
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), _mm256_permute_ps(scales, 0x55 * i), sums);
}

KERN_F16C_INLINE void kern_add_q4_0(__m256 *sums, const struct kern_unpacked_q4_0 *u, const char *columns, size_t stride, const int n) {
	__m256 s[KERN_GROUP], scales[KERN_GROUP], zero_points = _mm256_mul_ps(u->d, _mm256_set1_ps(-KERN_ZERO_POINT_Q4_0));
	KERN_UNROLL(j, n) {
		const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
		scales[j] = _mm256_mul_ps(u->d, _mm256_load_ps(x->d));
		s[j] = _mm256_mul_ps(zero_points, _mm256_load_ps(x->sums));
	}
#define KERN_EACH_COLUMN(i) KERN_UNROLL(j, n) s[j] = kern_add_pair(s[j], u, (const void *)(columns + (size_t)j * stride), scales[j], i);
	KERN_EACH_COLUMN(0)
	KERN_EACH_COLUMN(1)
	KERN_EACH_COLUMN(2)
	KERN_EACH_COLUMN(3)
#undef KERN_EACH_COLUMN
	KERN_UNROLL(j, n) sums[j] = _mm256_add_ps(sums[j], s[j]);
}

KERN_AVX2_MULTIPLY(q4_0, KERN_BLOCK, kern_q4, kern_unpacked_q4_0, kern_add_q4_0, kern_block_column)

const struct kern_gemv_kernel *kern_avx2_of(enum ggml_type type) {
	static const struct kern_gemv_kernel q8_0 = {kern_column_size, kern_pack_blocks, kern_multiply_q8_0};
	static const struct kern_gemv_kernel q4_0 = {kern_column_size, kern_pack_q4_0, kern_multiply_q4_0};
	if (!kern_isa_f16c()) {
		return NULL;
	}
	switch (type) {
	case GGML_TYPE_Q8_0: return &q8_0;
	case GGML_TYPE_Q4_0: return &q4_0;
	case GGML_TYPE_Q4_K: return &kern_avx2_q4_k;
	case GGML_TYPE_Q5_K: return &kern_avx2_q5_k;
	case GGML_TYPE_Q6_K: return &kern_avx2_q6_k;
	default: return NULL;
	}
}

#else

const struct kern_gemv_kernel *kern_avx2_of(enum ggml_type type) { return NULL; }

#endif
