#include "avx2.h"
#include "pack_int.h"

#if defined(__x86_64__)

#include <float.h>
#include <math.h>
#include <string.h>

enum { KERN_Q_MAX = 127, KERN_HALF = KERN_MR / 2 };

// Returns the order of the Hadamard matrix: the largest power of two that divides the depth.
static int kern_hadamard_order(int64_t padded) { return (int)(padded & -padded); }

// Elements are multiplied by the signs of the Rudin–Shapiro sequence before the rotation. Its spectrum is flat, so columns
// whose elements are alike, such as the gradient of logits, do not become a single large element.
KERN_INLINE bool kern_is_negative(int64_t i) { return __builtin_parity((unsigned)(i & i >> 1)); }

// Rows of A, 16 side by side. They are rotated as 16-bit integers: each is scaled so that the sum of its magnitudes,
// which no element of the rotated row exceeds, fits.

enum { KERN_I16_SUM = INT16_MAX - KERN_KB / 2 }; // each element is rounded by up to 1/2

KERN_INLINE void kern_butterfly(__m256i *a, __m256i *b) {
	__m256i sum = _mm256_add_epi16(*a, *b);
	*b = _mm256_sub_epi16(*a, *b);
	*a = sum;
}

// Transforms radix elements at distances of step in registers.
KERN_INLINE void kern_hadamard_pass(__m256i *t, int64_t n, int step, const int radix) {
	for (int64_t block = 0; block < n; block += radix * step) {
		for (int64_t i = block; i < block + step; i++) {
			__m256i r[8];
#pragma GCC unroll 8
			for (int j = 0; j < radix; j++) { r[j] = t[i + j * step]; }
#pragma GCC unroll 3
			for (int s = 1; s < radix; s *= 2) {
#pragma GCC unroll 8
				for (int j = 0; j < radix; j++) {
					if ((j & s) == 0) { kern_butterfly(&r[j], &r[j + s]); }
				}
			}
#pragma GCC unroll 8
			for (int j = 0; j < radix; j++) { t[i + j * step] = r[j]; }
		}
	}
}

KERN_INLINE void kern_hadamard_i16(__m256i *t, int64_t n, int order) {
	int step = 1;
	for (; step * 8 <= order; step *= 8) { kern_hadamard_pass(t, n, step, 8); }
	if (step * 4 <= order) { kern_hadamard_pass(t, n, step, 4); step *= 4; }
	if (step * 2 <= order) { kern_hadamard_pass(t, n, step, 2); }
}

// The norms of 8 rows: Σ|x| and Σx².
struct kern_norms { __m256 l1, l2; };

KERN_INLINE void kern_add_norms(struct kern_norms *n, const float *x) {
	__m256 v = _mm256_loadu_ps(x);
	n->l1 = _mm256_add_ps(n->l1, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v));
	n->l2 = _mm256_fmadd_ps(v, v, n->l2);
}

KERN_INLINE __m256i kern_round_i16(const float *x, __m256 low_scale, __m256 high_scale) {
	__m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), low_scale));
	__m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), high_scale));
	return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
}

// 1 / x, or 0 for 0.
KERN_INLINE __m256 kern_inverse(__m256 x) {
	return _mm256_and_ps(_mm256_div_ps(_mm256_set1_ps(1), x), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

// Biases two rows by 128 and puts their bytes side by side.
KERN_INLINE __m256i kern_byte_pairs(__m256i even, __m256i odd) {
	return _mm256_add_epi16(_mm256_add_epi16(even, _mm256_slli_epi16(odd, 8)), _mm256_set1_epi16((int16_t)0x8080));
}

// The scales of 8 rows from the norms and the largest magnitude after the rotation, and whether one is uneven.
// The rotated row is multiplied by factor / 2¹⁵.
KERN_INLINE bool kern_scales_a(const struct kern_norms *n, __m256 largest, int64_t padded, int order, float *scale, __m256i *factor) {
	__m256 f = _mm256_floor_ps(_mm256_mul_ps(_mm256_set1_ps(KERN_Q_MAX * 32768.0f), kern_inverse(largest)));
	*factor = _mm256_cvtps_epi32(f);
	// x ≈ q · unit · 2¹⁵/factor, and the rotation multiplied by its order.
	__m256 unit = _mm256_mul_ps(n->l1, _mm256_set1_ps(1.0f / KERN_I16_SUM));
	_mm256_storeu_ps(scale, _mm256_mul_ps(_mm256_mul_ps(unit, kern_inverse(f)), _mm256_set1_ps(32768.0f / (float)order)));
	// largest² · unit² · padded > crest² · order · Σx²
	__m256 peak = _mm256_mul_ps(largest, unit);
	__m256 limit = _mm256_mul_ps(n->l2, _mm256_set1_ps(KERN_CREST * KERN_CREST * (float)order / (float)padded));
	__m256 even = _mm256_and_ps(_mm256_cmp_ps(_mm256_mul_ps(peak, peak), limit, _CMP_LE_OQ),
		_mm256_and_ps(_mm256_cmp_ps(n->l2, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ), _mm256_cmp_ps(n->l2, _mm256_set1_ps(1e-30f), _CMP_GE_OQ)));
	__m256 zero = _mm256_cmp_ps(n->l1, _mm256_setzero_ps(), _CMP_EQ_OQ);
	return _mm256_movemask_ps(_mm256_or_ps(even, zero)) != 0xff;
}

// Packs 16 rows; returns whether one is uneven.
KERN_AVX2 static bool kern_pack_half(const float *a, int64_t ld, int64_t depth, int64_t padded, uint32_t (*q)[KERN_MR], float *scale) {
	__m256i t[KERN_KB];
	struct kern_norms low = {_mm256_setzero_ps(), _mm256_setzero_ps()}, high = low;
	for (int64_t i = 0; i < depth; i++) {
		kern_add_norms(&low, a + i * ld);
		kern_add_norms(&high, a + i * ld + 8);
	}
	__m256 sum = _mm256_set1_ps(KERN_I16_SUM);
	__m256 low_scale = _mm256_mul_ps(sum, kern_inverse(low.l1)), high_scale = _mm256_mul_ps(sum, kern_inverse(high.l1));
	__m256 low_minus = _mm256_xor_ps(low_scale, _mm256_set1_ps(-0.0f)), high_minus = _mm256_xor_ps(high_scale, _mm256_set1_ps(-0.0f));
	for (int64_t i = 0; i < depth; i++) {
		bool minus = kern_is_negative(i);
		t[i] = kern_round_i16(a + i * ld, minus ? low_minus : low_scale, minus ? high_minus : high_scale);
	}
	for (int64_t i = depth; i < padded; i++) { t[i] = _mm256_setzero_si256(); }
	int order = kern_hadamard_order(padded);
	kern_hadamard_i16(t, padded, order);
	__m256i largest = _mm256_setzero_si256();
	for (int64_t i = 0; i < padded; i++) { largest = _mm256_max_epi16(largest, _mm256_abs_epi16(t[i])); }
	__m256i low_factor, high_factor;
	bool uneven = kern_scales_a(&low, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(largest))), padded, order, scale, &low_factor);
	uneven |= kern_scales_a(&high, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(largest, 1))), padded, order, scale + 8, &high_factor);
	__m256i factor = _mm256_permute4x64_epi64(_mm256_packs_epi32(low_factor, high_factor), 0xd8);
	for (int64_t i = 0; i < padded; i += KERN_STEP_I8) {
		__m256i first = kern_byte_pairs(_mm256_mulhrs_epi16(t[i], factor), _mm256_mulhrs_epi16(t[i + 1], factor));
		__m256i second = kern_byte_pairs(_mm256_mulhrs_epi16(t[i + 2], factor), _mm256_mulhrs_epi16(t[i + 3], factor));
		__m256i even = _mm256_unpacklo_epi16(first, second), odd = _mm256_unpackhi_epi16(first, second);
		_mm256_storeu_si256((void *)q[i / KERN_STEP_I8], _mm256_permute2x128_si256(even, odd, 0x20));
		_mm256_storeu_si256((void *)(q[i / KERN_STEP_I8] + 8), _mm256_permute2x128_si256(even, odd, 0x31));
	}
	return uneven;
}

KERN_AVX2 void kern_pack_a_i8(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {
	float whole[KERN_KB * KERN_MR];
	a = kern_whole_rows(a, &ld, m, depth, whole);
	int64_t padded = kern_padded_depth(depth);
	panel->uneven = kern_pack_half(a, ld, depth, padded, panel->q, panel->scale);
	panel->uneven |= kern_pack_half(a + KERN_HALF, ld, depth, padded, (uint32_t (*)[KERN_MR])(panel->q[0] + KERN_HALF), panel->scale + KERN_HALF);
}

// Columns of B, 8 elements in a register.

enum { KERN_LANES = 8 };

// A butterfly of the Hadamard transform: the sum in the lower lanes of each pair at a distance, the difference in the upper.
KERN_INLINE __m256 kern_butterfly_lanes(__m256 x, __m256 exchanged, const int distance) {
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i upper = _mm256_cmpgt_epi32(_mm256_and_si256(lanes, _mm256_set1_epi32(distance)), _mm256_setzero_si256());
	__m256 sign = _mm256_and_ps(_mm256_castsi256_ps(upper), _mm256_set1_ps(-0.0f));
	return _mm256_add_ps(_mm256_xor_ps(x, sign), exchanged);
}

// Returns the signs of 8 elements: the parity of i & i / 2, to which lanes 0 to 7 add their own.
KERN_INLINE __m256 kern_signs(int64_t i) {
	const __m256 lanes = _mm256_setr_ps(0.0f, 0.0f, 0.0f, -0.0f, 0.0f, 0.0f, -0.0f, 0.0f);
	// Bit 3 of the index meets bit 2 of the lane.
	const __m256 upper = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
	__m256 signs = kern_is_negative(i) ? _mm256_xor_ps(lanes, _mm256_set1_ps(-0.0f)) : lanes;
	return i % 2 == 1 ? _mm256_xor_ps(signs, upper) : signs;
}

KERN_INLINE void kern_hadamard_f32(__m256 *x, int64_t n, int order) {
	for (int64_t i = 0; i < n; i++) {
		__m256 v = _mm256_xor_ps(x[i], kern_signs(i));
		v = kern_butterfly_lanes(v, _mm256_permute_ps(v, 0xb1), 1);
		v = kern_butterfly_lanes(v, _mm256_permute_ps(v, 0x4e), 2);
		x[i] = kern_butterfly_lanes(v, _mm256_permute2f128_ps(v, v, 1), 4);
	}
	for (int step = 1; step * KERN_LANES < order; step *= 2) {
		for (int64_t block = 0; block < n; block += 2 * step) {
			for (int64_t i = block; i < block + step; i++) {
				__m256 sum = _mm256_add_ps(x[i], x[i + step]);
				x[i + step] = _mm256_sub_ps(x[i], x[i + step]);
				x[i] = sum;
			}
		}
	}
}

// Packs a column as column j of a panel; returns whether it is uneven.
KERN_AVX2 static bool kern_pack_column(const float *b, int64_t depth, int64_t padded, struct kern_panel_b *panel, int64_t j) {
	__m256 x[KERN_KB / KERN_LANES];
	memcpy(x, b, depth * sizeof *b);
	memset((float *)x + depth, 0, (padded - depth) * sizeof *b);
	int64_t n = padded / KERN_LANES;
	kern_hadamard_f32(x, n, kern_hadamard_order(padded));
	__m256 largest = _mm256_setzero_ps(), squares = _mm256_setzero_ps();
	for (int64_t i = 0; i < n; i++) { largest = _mm256_max_ps(largest, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x[i])); }
	float peak = kern_max_lanes(largest);
	__m256 factor = _mm256_set1_ps(peak > 0 ? KERN_Q_MAX / peak : 0);
	__m256i sum = _mm256_setzero_si256();
	for (int64_t i = 0; i < n; i++) {
		__m256 scaled = _mm256_mul_ps(x[i], factor);
		squares = _mm256_fmadd_ps(scaled, scaled, squares);
		__m256i q = _mm256_cvtps_epi32(scaled);
		sum = _mm256_add_epi32(sum, q);
		__m256i words = _mm256_packs_epi32(q, q);
		__m256i bytes = _mm256_packs_epi16(words, words);
		int32_t lower = _mm_cvtsi128_si32(_mm256_castsi256_si128(bytes)), upper = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
		memcpy(panel->q[0] + kern_b_index(panel->tiles, 2 * i, j), &lower, sizeof lower);
		memcpy(panel->q[0] + kern_b_index(panel->tiles, 2 * i + 1, j), &upper, sizeof upper);
	}
	panel->scale[j] = peak / KERN_Q_MAX;
	panel->first[j] = -KERN_BIAS * (int32_t)kern_sum_lanes(_mm256_cvtepi32_ps(sum));
	float energy = kern_sum_lanes(squares);
	bool even = peak >= 1e-30f && peak <= FLT_MAX && energy * (KERN_CREST * KERN_CREST) >= KERN_Q_MAX * KERN_Q_MAX * (float)padded;
	return !even && !(peak == 0 && energy == 0);
}

KERN_AVX2 void kern_pack_b_i8(const float *b, int64_t ld, int64_t n, int64_t depth, bool tiles, struct kern_panel_b *panel) {
	const int64_t padded = kern_padded_depth(depth);
	panel->uneven = false, panel->tiles = tiles;
	for (int64_t j = 0; j < n; j++) {
		panel->uneven |= kern_pack_column(b + j * ld, depth, padded, panel, j);
	}
}

#endif
