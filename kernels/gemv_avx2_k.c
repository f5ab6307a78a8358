#if defined(__x86_64__)

#include "gemv_avx2_row.h"
#include "gemv_super.h"

static size_t kern_super_size(int64_t k) { return (size_t)(k / KERN_SUPER_BLOCK) * sizeof(struct kern_super_column); }

// Rounds super-blocks to 8 bits with a scale in F32, as Q8_K does.
KERN_F16C static void kern_pack_super(const float *x, void *column, int64_t k) {
	struct kern_super_column *c = column;
	for (; k > 0; k -= KERN_SUPER_BLOCK, x += KERN_SUPER_BLOCK, c++) {
		__m256 largest = _mm256_setzero_ps();
		KERN_UNROLL(i, KERN_PART_REGISTERS) largest = _mm256_max_ps(largest, kern_largest(x + i * KERN_REGISTER));
		float most = kern_max_lanes(largest), factor = most > 0 ? 127 / most : 0;
		KERN_UNROLL(i, KERN_PART_REGISTERS) _mm256_store_si256((void *)(c->q + i * KERN_REGISTER), kern_round(x + i * KERN_REGISTER, factor));
		for (int i = 0; i < KERN_SIXTEENS; i++) {
			int sum = 0;
			for (int j = 0; j < 16; j++) { sum += c->q[16 * i + j]; }
			c->sums[i] = (int16_t)sum;
		}
		c->d = most > 0 ? 1 / factor : 0;
	}
}

// A super-block of a row in one form for all types, with q from 0 to 63: a sum of two products fits 16 bits.
struct kern_unpacked_super {
	__m256i q[KERN_PART_REGISTERS];
	struct kern_super_scales s;
};

KERN_F16C_INLINE __m256i kern_and(__m256i x, int mask) { return _mm256_and_si256(x, _mm256_set1_epi8((char)mask)); }

KERN_F16C_INLINE __m256i kern_load(const uint8_t *bytes) { return _mm256_loadu_si256((const void *)bytes); }

KERN_F16C_INLINE void kern_unpack_q4_k(struct kern_unpacked_super *u, const struct kern_q4_k *w) {
	kern_unpack_head(&u->s, &w->head);
	KERN_UNROLL(i, KERN_PART_REGISTERS / 2) {
		__m256i nibbles = kern_load(w->q + i * KERN_REGISTER);
		u->q[2 * i] = kern_and(nibbles, 15);
		u->q[2 * i + 1] = kern_and(_mm256_srli_epi16(nibbles, 4), 15);
	}
}

KERN_F16C_INLINE void kern_unpack_q5_k(struct kern_unpacked_super *u, const struct kern_q5_k *w) {
	kern_unpack_head(&u->s, &w->head);
	__m256i high = kern_load(w->high);
	KERN_UNROLL(i, KERN_PART_REGISTERS / 2) {
		__m256i nibbles = kern_load(w->q + i * KERN_REGISTER);
		__m256i bits = i < 2 ? _mm256_slli_epi16(high, 4 - 2 * i) : _mm256_srli_epi16(high, 2 * i - 4);
		u->q[2 * i] = _mm256_or_si256(kern_and(nibbles, 15), kern_and(bits, 16));
		u->q[2 * i + 1] = _mm256_or_si256(kern_and(_mm256_srli_epi16(nibbles, 4), 15), kern_and(_mm256_srli_epi16(bits, 1), 16));
	}
}

KERN_F16C_INLINE void kern_unpack_q6_k(struct kern_unpacked_super *u, const struct kern_q6_k *w) {
	kern_unpack_scales_q6_k(&u->s, w);
	KERN_UNROLL(half, 2) {
		__m256i *q = u->q + 4 * half, high = kern_load(w->high + half * KERN_REGISTER);
		__m256i first = kern_load(w->low + 2 * half * KERN_REGISTER), second = kern_load(w->low + (2 * half + 1) * KERN_REGISTER);
		q[0] = _mm256_or_si256(kern_and(first, 15), kern_and(_mm256_slli_epi16(high, 4), 0x30));
		q[1] = _mm256_or_si256(kern_and(second, 15), kern_and(_mm256_slli_epi16(high, 2), 0x30));
		q[2] = _mm256_or_si256(kern_and(_mm256_srli_epi16(first, 4), 15), kern_and(high, 0x30));
		q[3] = _mm256_or_si256(kern_and(_mm256_srli_epi16(second, 4), 15), kern_and(_mm256_srli_epi16(high, 2), 0x30));
	}
}

// Sums of products with scales, which a few elements share, are integers.
KERN_F16C_INLINE void kern_add_scaled(__m256 *sums, const struct kern_unpacked_super *u, const char *columns, size_t stride, const int n, const int few) {
	const __m256i sixteens = _mm256_set_m128i(_mm_set1_epi16(0x0302), _mm_set1_epi16(0x0100));
	int32_t pairs[KERN_PART_REGISTERS]; // the two scales of each register
	_mm256_storeu_si256((void *)pairs, u->s.scales);
	KERN_IN_MEMORY(pairs);
	__m256i scaled[KERN_GROUP];
	KERN_UNROLL(j, n) scaled[j] = _mm256_setzero_si256();
	KERN_UNROLL(i, KERN_PART_REGISTERS) {
		__m256i scale = _mm256_set1_epi32(pairs[i]);
		if (few < KERN_REGISTER) { scale = _mm256_shuffle_epi8(scale, sixteens); }
		KERN_UNROLL(j, n) {
			const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
			__m256i products = _mm256_maddubs_epi16(u->q[i], _mm256_load_si256((const void *)(x->q + i * KERN_REGISTER)));
			scaled[j] = _mm256_add_epi32(scaled[j], _mm256_madd_epi16(products, scale));
		}
	}
	KERN_UNROLL(j, n) {
		const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
		__m256 column = _mm256_set1_ps(x->d), d = _mm256_mul_ps(_mm256_set1_ps(u->s.d), column), min = _mm256_mul_ps(_mm256_set1_ps(u->s.min), column);
		__m256i subtracted = _mm256_madd_epi16(u->s.minimums, _mm256_load_si256((const void *)x->sums));
		sums[j] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(scaled[j]), sums[j]);
		sums[j] = _mm256_fnmadd_ps(min, _mm256_cvtepi32_ps(subtracted), sums[j]);
	}
}

KERN_F16C_INLINE void kern_add_super_32(__m256 *sums, const struct kern_unpacked_super *u, const char *columns, size_t stride, const int n) {
	kern_add_scaled(sums, u, columns, stride, n, 32);
}

KERN_F16C_INLINE void kern_add_super_16(__m256 *sums, const struct kern_unpacked_super *u, const char *columns, size_t stride, const int n) {
	kern_add_scaled(sums, u, columns, stride, n, 16);
}

#define KERN_AVX2_K(type, few) \
	KERN_AVX2_MULTIPLY(type, KERN_SUPER_BLOCK, kern_##type, kern_unpacked_super, kern_add_super_##few, kern_super_column) \
	const struct kern_gemv_kernel kern_avx2_##type = {kern_super_size, kern_pack_super, kern_multiply_##type};

KERN_AVX2_K(q4_k, 32)
KERN_AVX2_K(q5_k, 32)
KERN_AVX2_K(q6_k, 16)

#endif
