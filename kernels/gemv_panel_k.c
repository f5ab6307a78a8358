#if defined(__x86_64__) && defined(__linux__)

#include "gemv_panel.h"
#include "gemv_vnni_k.h"

// The panel in one form for all types: an element is d · scale · q − min · minimum, with q from 0 to 63.
struct kern_super_panel {
	__m512i q[KERN_FOURS];
	__m512i scales[KERN_SIXTEENS]; // per 16 elements, or the first eight per 32
	__m512i minimums[KERN_SIXTEENS / 2]; // pairs of 16 bits, per 16 elements
	__m512 d, min;
};

// Multiplies a panel with a scale for every few elements. Sums of products with scales are integers.
KERN_VNNI_INLINE void kern_multiply_super(__m512 *sums, const void *panel, const char *columns, size_t stride, const int n, const int few) {
	const struct kern_super_panel *w = panel;
	__m512i scaled[KERN_NR], subtracted[KERN_NR];
#pragma GCC unroll 8
	for (int j = 0; j < n; j++) { scaled[j] = subtracted[j] = _mm512_setzero_si512(); }
	for (int b = 0; b < KERN_PANEL_K / few; b++) {
		__m512i products[KERN_NR];
#pragma GCC unroll 8
		for (int j = 0; j < n; j++) { products[j] = _mm512_setzero_si512(); }
#pragma GCC unroll 8
		for (int i = 0; i < few / 4; i++) {
			__m512i q = w->q[b * few / 4 + i];
#pragma GCC unroll 8
			for (int j = 0; j < n; j++) {
				const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
				products[j] = _mm512_dpbusd_epi32(products[j], q, kern_broadcast_four(x->q + b * few + 4 * i));
			}
		}
#pragma GCC unroll 8
		for (int j = 0; j < n; j++) { scaled[j] = _mm512_add_epi32(scaled[j], _mm512_mullo_epi32(products[j], w->scales[b])); }
	}
	for (int i = 0; i < KERN_SIXTEENS / 2; i++) {
#pragma GCC unroll 8
		for (int j = 0; j < n; j++) {
			const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
			subtracted[j] = _mm512_dpwssd_epi32(subtracted[j], w->minimums[i], kern_broadcast_four(x->sums + 2 * i));
		}
	}
#pragma GCC unroll 8
	for (int j = 0; j < n; j++) {
		const struct kern_super_column *x = (const void *)(columns + (size_t)j * stride);
		__m512 d = _mm512_set1_ps(x->d);
		sums[j] = _mm512_fmadd_ps(_mm512_mul_ps(w->d, d), _mm512_cvtepi32_ps(scaled[j]), sums[j]);
		sums[j] = _mm512_fnmadd_ps(_mm512_mul_ps(w->min, d), _mm512_cvtepi32_ps(subtracted[j]), sums[j]);
	}
}

KERN_VNNI_INLINE void kern_multiply_super_32(__m512 *sums, const void *panel, const char *columns, size_t stride, const int n) {
	kern_multiply_super(sums, panel, columns, stride, n, 32);
}
KERN_PANEL_WIDTHS(kern_multiply_super_32)

KERN_VNNI_INLINE void kern_multiply_super_16(__m512 *sums, const void *panel, const char *columns, size_t stride, const int n) {
	kern_multiply_super(sums, panel, columns, stride, n, 16);
}
KERN_PANEL_WIDTHS(kern_multiply_super_16)

// Returns the F16 number in the low half of each lane.
KERN_VNNI_INLINE __m512 kern_from_low_half(__m512i x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

// Bytes of a word of each row → four registers.
KERN_VNNI_INLINE void kern_spread_bytes(__m512i *out, __m512i words) {
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) { out[i] = _mm512_and_si512(_mm512_srli_epi32(words, 8 * i), _mm512_set1_epi32(255)); }
}

// 6-bit scales followed by minimums: the first four of each have a byte; the others are split into
// four bits of their own, and two bits above the first four.
KERN_VNNI_INLINE void kern_unpack_heads(struct kern_super_panel *p, const char *const *rows) {
	enum { SIX = 0x3f, UPPER = 0x30, LOWER = 0x0f };
	__m512i words[4]; // the scales are words 1 to 3
	kern_load_transposed(words, rows, 0);
	p->d = kern_from_low_half(words[0]);
	p->min = kern_from_low_half(_mm512_srli_epi32(words[0], 16));
	__m512i scales_above = kern_and_bytes(_mm512_srli_epi32(words[1], 2), UPPER);
	__m512i minimums_above = kern_and_bytes(_mm512_srli_epi32(words[2], 2), UPPER);
	kern_spread_bytes(p->scales, kern_and_bytes(words[1], SIX));
	kern_spread_bytes(p->scales + 4, _mm512_or_si512(kern_and_bytes(words[3], LOWER), scales_above));
	kern_spread_bytes(p->minimums, kern_and_bytes(words[2], SIX));
	kern_spread_bytes(p->minimums + 4, _mm512_or_si512(kern_and_bytes(_mm512_srli_epi32(words[3], 4), LOWER), minimums_above));
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) { p->minimums[i] = _mm512_or_si512(p->minimums[i], _mm512_slli_epi32(p->minimums[i], 16)); }
}

// A 32-element block and the next share bytes: low and high nibbles.
KERN_VNNI static void kern_unpack_q4_k(void *panel, const char *const *rows, int64_t k) {
	struct kern_super_panel *p = panel;
	kern_unpack_heads(p, rows);
	for (int i = 0; i < KERN_SUPER_BLOCK / KERN_BLOCK; i++) { // 16 bytes each
		__m512i nibbles[4], *q = p->q + i / 2 * 16 + i % 2 * 4;
		kern_load_transposed(nibbles, rows, offsetof(struct kern_q4_k, q) + 16 * (size_t)i);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			q[j] = kern_and_bytes(nibbles[j], 15);
			q[j + 8] = kern_and_bytes(_mm512_srli_epi16(nibbles[j], 4), 15);
		}
	}
}

KERN_VNNI static void kern_unpack_q5_k(void *panel, const char *const *rows, int64_t k) {
	struct kern_super_panel *p = panel;
	kern_unpack_heads(p, rows);
	__m512i high[8];
	kern_load_transposed(high, rows, offsetof(struct kern_q5_k, high));
	kern_load_transposed(high + 4, rows, offsetof(struct kern_q5_k, high) + 16);
	for (int i = 0; i < KERN_SUPER_BLOCK / KERN_BLOCK; i++) {
		__m512i nibbles[4], *q = p->q + i / 2 * 16 + i % 2 * 4, *h = high + i % 2 * 4;
		kern_load_transposed(nibbles, rows, offsetof(struct kern_q5_k, q) + 16 * (size_t)i);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) { // the two lowest bits of high belong to these blocks
			q[j] = _mm512_or_si512(kern_and_bytes(nibbles[j], 15), kern_and_bytes(_mm512_slli_epi16(h[j], 4), 16));
			q[j + 8] = _mm512_or_si512(kern_and_bytes(_mm512_srli_epi16(nibbles[j], 4), 15), kern_and_bytes(_mm512_slli_epi16(h[j], 3), 16));
			h[j] = _mm512_srli_epi16(h[j], 2);
		}
	}
}

// q − 32 is by minimums: d · scale · 32.
KERN_VNNI static void kern_unpack_q6_k(void *panel, const char *const *rows, int64_t k) {
	struct kern_super_panel *p = panel;
	__m512i words[4];
	kern_load_transposed(words, rows, offsetof(struct kern_q6_k, scales));
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) { p->scales[4 * i + j] = _mm512_srai_epi32(_mm512_slli_epi32(words[i], 24 - 8 * j), 24); }
		p->minimums[2 * i] = _mm512_mask_blend_epi16(0xaaaaaaaa, p->scales[4 * i], _mm512_slli_epi32(p->scales[4 * i + 1], 16));
		p->minimums[2 * i + 1] = _mm512_mask_blend_epi16(0xaaaaaaaa, p->scales[4 * i + 2], _mm512_slli_epi32(p->scales[4 * i + 3], 16));
	}
	uint16_t d[KERN_MR];
	for (int i = 0; i < KERN_MR; i++) { d[i] = ((const struct kern_q6_k *)rows[i])->d; }
	p->d = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)d));
	p->min = _mm512_mul_ps(p->d, _mm512_set1_ps(32));
	for (int i = 0; i < 4; i++) { // 16 elements of each of four blocks of 32, in either half
		size_t half = i / 2, part = i % 2 * 16;
		__m512i first[4], second[4], high[4], *q = p->q + half * 32 + i % 2 * 4;
		kern_load_transposed(first, rows, 64 * half + part);
		kern_load_transposed(second, rows, 64 * half + 32 + part);
		kern_load_transposed(high, rows, offsetof(struct kern_q6_k, high) + 32 * half + part);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			q[j] = _mm512_or_si512(kern_and_bytes(first[j], 15), kern_and_bytes(_mm512_slli_epi16(high[j], 4), 0x30));
			q[j + 8] = _mm512_or_si512(kern_and_bytes(second[j], 15), kern_and_bytes(_mm512_slli_epi16(high[j], 2), 0x30));
			q[j + 16] = _mm512_or_si512(kern_and_bytes(_mm512_srli_epi16(first[j], 4), 15), kern_and_bytes(high[j], 0x30));
			q[j + 24] = _mm512_or_si512(kern_and_bytes(_mm512_srli_epi16(second[j], 4), 15), kern_and_bytes(_mm512_srli_epi16(high[j], 2), 0x30));
		}
	}
}

#define KERN_PANEL_SUPER(type, products) \
	KERN_PANEL_MULTIPLY(type, kern_super_panel, kern_super_column, sizeof(struct kern_##type), products) \
	const struct kern_gemv_kernel kern_panel_##type = {kern_super_size, kern_pack_super, kern_multiply_##type};

KERN_PANEL_SUPER(q4_k, kern_multiply_super_32)
KERN_PANEL_SUPER(q5_k, kern_multiply_super_32)
KERN_PANEL_SUPER(q6_k, kern_multiply_super_16)

#endif
