#include "gemv_vnni_k.h"

#if defined(__x86_64__) && defined(__linux__)

#include "vnni.h"

#include <string.h>

enum { KERN_REGISTERS = KERN_SUPER_BLOCK / KERN_REGISTER };

size_t kern_super_size(int64_t k) { return (size_t)(k / KERN_SUPER_BLOCK) * sizeof(struct kern_super_column); }

// Sums each 16 elements: fours by products with 1, then pairs of sums twice.
KERN_VNNI_INLINE __m256i kern_sum_sixteens(const __m512i *q) {
	const __m512i ones = _mm512_set1_epi16(1), order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m512i fours[KERN_REGISTERS];
#pragma GCC unroll 4
	for (int i = 0; i < KERN_REGISTERS; i++) {
		fours[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q[i]);
	}
	__m512i first = _mm512_madd_epi16(_mm512_packs_epi32(fours[0], fours[1]), ones);
	__m512i second = _mm512_madd_epi16(_mm512_packs_epi32(fours[2], fours[3]), ones);
	__m512i sums = _mm512_madd_epi16(_mm512_packs_epi32(first, second), ones);
	return _mm512_cvtepi32_epi16(_mm512_permutexvar_epi32(order, sums));
}

KERN_VNNI void kern_pack_super(const float *x, void *column, int64_t k) {
	struct kern_super_column *c = column;
	for (; k > 0; k -= KERN_SUPER_BLOCK, x += KERN_SUPER_BLOCK, c++) {
		__m512 largest = _mm512_setzero_ps();
		for (int i = 0; i < KERN_SUPER_BLOCK; i += 16) {
			largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
		}
		float most = _mm512_reduce_max_ps(largest), scale = most > 0 ? 127 / most : 0;
		for (int i = 0; i < KERN_SUPER_BLOCK; i += 16) {
			__m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(scale)));
			_mm_store_si128((void *)(c->q + i), _mm512_cvtepi32_epi8(q));
		}
		__m512i q[KERN_REGISTERS];
		memcpy(q, c->q, sizeof q);
		_mm256_store_si256((void *)c->sums, kern_sum_sixteens(q));
		c->d = most > 0 ? 1 / scale : 0;
	}
}

// A super-block of a row in one form for all types, with q from 0 to 63: a sum of four products fits 16 bits.
struct kern_super {
	__m512i q[KERN_REGISTERS];
	struct kern_super_scales s;
};

// Selects bits of high where the mask is 1, else bits of low.
KERN_VNNI_INLINE __m512i kern_merge_bits(__m512i low, __m512i high, int mask) {
	return _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8((char)mask)));
}

KERN_VNNI_INLINE __m512i kern_low_bits(__m512i q) { return _mm512_and_si512(q, _mm512_set1_epi8(15)); }

// Shifts two copies of 32 bytes left by first and second bits; bits that cross a byte must be
// masked out.
KERN_VNNI_INLINE __m512i kern_rotate_twice(const uint8_t *bytes, int first, int second) {
	__m512i twice = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)bytes));
	long long a = first, b = second;
	return _mm512_rolv_epi64(twice, _mm512_setr_epi64(a, a, a, a, b, b, b, b));
}

KERN_VNNI_INLINE void kern_unpack_q4_k(struct kern_super *s, const struct kern_q4_k *w) {
	kern_unpack_head(&s->s, &w->head);
#pragma GCC unroll 4
	for (int i = 0; i < KERN_REGISTERS; i++) {
		s->q[i] = kern_low_bits(kern_rotate_twice(w->q + i * KERN_BLOCK, 0, 60));
	}
}

KERN_VNNI_INLINE void kern_unpack_q5_k(struct kern_super *s, const struct kern_q5_k *w) {
	kern_unpack_head(&s->s, &w->head);
#pragma GCC unroll 4
	for (int i = 0; i < KERN_REGISTERS; i++) {
		__m512i low = kern_low_bits(kern_rotate_twice(w->q + i * KERN_BLOCK, 0, 60));
		s->q[i] = kern_merge_bits(low, kern_rotate_twice(w->high, (68 - 2 * i) % 64, (67 - 2 * i) % 64), 16);
	}
}

KERN_VNNI_INLINE void kern_unpack_q6_k(struct kern_super *s, const struct kern_q6_k *w) {
	kern_unpack_scales_q6_k(&s->s, w);
#pragma GCC unroll 2
	for (int i = 0; i < KERN_REGISTERS; i += 2) {
		__m512i low = _mm512_loadu_si512(w->low + i * KERN_BLOCK);
		const uint8_t *high = w->high + i * KERN_BLOCK / 2;
		s->q[i] = kern_merge_bits(kern_low_bits(low), kern_rotate_twice(high, 4, 2), 0x30);
		s->q[i + 1] = kern_merge_bits(kern_low_bits(_mm512_srli_epi16(low, 4)), kern_rotate_twice(high, 0, 62), 0x30);
	}
}

// Returns the sums of four products each of two registers, in 16 bits: four of the first, four of
// the second, alternating.
KERN_VNNI_INLINE __m512i kern_products(const __m512i *w, const int8_t *x) {
	__m512i first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[0], _mm512_load_si512(x));
	__m512i second = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[1], _mm512_load_si512(x + KERN_REGISTER));
	return _mm512_packs_epi32(first, second);
}

// Multiplies a super-block with each column. Sums of products with scales are integers.
KERN_VNNI_INLINE void kern_add_super(__m512 *sums, __m256 *minimums, const struct kern_super *w, const char *columns, size_t stride, const int n) {
	const __m512i eights = _mm512_setr_epi64(0, 0x0004000400040004, 0x0001000100010001, 0x0005000500050005,
		0x0002000200020002, 0x0006000600060006, 0x0003000300030003, 0x0007000700070007);
	__m512i all = _mm512_castsi256_si512(w->s.scales);
	__m512i low = _mm512_permutexvar_epi16(eights, all), high = _mm512_permutexvar_epi16(_mm512_add_epi16(eights, _mm512_set1_epi16(8)), all);
	__m512 d = _mm512_set1_ps(w->s.d);
	__m256 min = _mm256_set1_ps(w->s.min);
#pragma GCC unroll 4
	for (int j = 0; j < n; j++) {
		const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
		__m512i products = _mm512_dpwssd_epi32(_mm512_setzero_si512(), kern_products(w->q, x->q), low);
		products = _mm512_dpwssd_epi32(products, kern_products(w->q + 2, x->q + 2 * KERN_REGISTER), high);
		__m256i subtracted = _mm256_madd_epi16(w->s.minimums, _mm256_load_si256((const void *)x->sums));
		sums[j] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x->d)), _mm512_cvtepi32_ps(products), sums[j]);
		minimums[j] = _mm256_fmadd_ps(_mm256_mul_ps(min, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(subtracted), minimums[j]);
	}
}

#define KERN_VNNI_K(type) \
	KERN_VNNI_INLINE void kern_dots_##type(__m512 *sums, int64_t k, const char *row, const char *columns, size_t stride, const int n) { \
		__m256 minimums[KERN_SUMS] = {0}; \
		for (; k > 0; k -= KERN_SUPER_BLOCK, row += sizeof(struct kern_##type), columns += sizeof(struct kern_super_column)) { \
			struct kern_super s; \
			kern_prefetch_ahead(row, sizeof(struct kern_##type)); \
			kern_unpack_##type(&s, (const void *)row); \
			kern_add_super(sums, minimums, &s, columns, stride, n); \
		} \
		_Pragma("GCC unroll 4") \
		for (int j = 0; j < n; j++) { sums[j] = _mm512_sub_ps(sums[j], _mm512_zextps256_ps512(minimums[j])); } \
	} \
	KERN_VNNI_MULTIPLY(type) \
	const struct kern_gemv_kernel kern_vnni_##type = {kern_super_size, kern_pack_super, kern_multiply_##type};

KERN_VNNI_K(q4_k)
KERN_VNNI_K(q5_k)
KERN_VNNI_K(q6_k)

#endif
