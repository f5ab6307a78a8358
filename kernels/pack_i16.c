#include "avx2.h"
#include "pack_int.h"

#if defined(__x86_64__)

#include <float.h>
#include <string.h>

enum { KERN_LANES = 8, KERN_RUN = 16 }; // elements of F32, and of 16 bits, in a register

// Sets the factors by which 8 rows become 16-bit integers, and their inverses, 0 for zeros, from Σx² and the largest
// magnitude. Returns whether a row cannot be rounded.
KERN_INLINE bool kern_scales_i16(__m256 squares, __m256 largest, float *scale, float *factor) {
	__m256 valid = _mm256_and_ps(_mm256_cmp_ps(squares, _mm256_set1_ps(1e-24f), _CMP_GE_OQ), _mm256_cmp_ps(squares, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ));
	__m256 zero = _mm256_and_ps(_mm256_cmp_ps(squares, _mm256_setzero_ps(), _CMP_EQ_OQ), _mm256_cmp_ps(largest, _mm256_setzero_ps(), _CMP_EQ_OQ));
	__m256 s = _mm256_max_ps(_mm256_div_ps(_mm256_sqrt_ps(squares), _mm256_set1_ps(KERN_NORM_I16)), _mm256_div_ps(largest, _mm256_set1_ps(INT16_MAX)));
	_mm256_storeu_ps(scale, _mm256_and_ps(s, valid));
	_mm256_storeu_ps(factor, _mm256_and_ps(_mm256_div_ps(_mm256_set1_ps(1), s), valid));
	return _mm256_movemask_ps(_mm256_or_ps(valid, zero)) != 0xff;
}

KERN_INLINE __m256 kern_magnitude(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

// Writes Σx² and the largest magnitude of a row of n elements.
KERN_INLINE void kern_measure_row(const float *x, int64_t n, float *square, float *peak) {
	__m256 squares[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, largest[2] = {squares[0], squares[0]};
	for (int64_t i = 0; i < n; i += KERN_RUN) {
		for (int h = 0; h < 2; h++) {
			__m256 v = _mm256_loadu_ps(x + i + h * KERN_LANES);
			squares[h] = _mm256_fmadd_ps(v, v, squares[h]);
			largest[h] = _mm256_max_ps(largest[h], kern_magnitude(v));
		}
	}
	*square = kern_sum_lanes(_mm256_add_ps(squares[0], squares[1]));
	*peak = kern_max_lanes(_mm256_max_ps(largest[0], largest[1]));
}

KERN_INLINE __m256i kern_round_run(const float *x, __m256 factor) {
	__m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), factor));
	__m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + KERN_LANES), factor));
	return _mm256_packs_epi32(low, high); // steps 0, 1, 4, 5, 2, 3, 6, 7
}

// Transposes 8 × 8 elements of 32 bits.
KERN_INLINE void kern_transpose_8(__m256i *r) {
	__m256i a[8], b[8];
	for (int i = 0; i < 8; i += 2) {
		a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
		a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
	}
	for (int i = 0; i < 8; i += 4) {
		for (int j = 0; j < 2; j++) {
			b[i + 2 * j] = _mm256_unpacklo_epi64(a[i + j], a[i + 2 + j]);
			b[i + 2 * j + 1] = _mm256_unpackhi_epi64(a[i + j], a[i + 2 + j]);
		}
	}
	for (int i = 0; i < 4; i++) {
		r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
		r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
	}
}

// Packs up to 8 rows, the first lanes of steps that are ld apart: 4 or 8 of them, with zeros for absent rows. Returns
// whether a row is uneven.
KERN_AVX2 static bool kern_pack_rows(const float *x, int64_t ldx, int64_t rows, int64_t depth, int64_t lanes, float *scale, uint32_t *q, int64_t ld) {
	static const int order[KERN_LANES] = {0, 1, 4, 5, 2, 3, 6, 7};
	static const float zeros[KERN_KB];
	float padded[KERN_LANES][KERN_KB], squares[KERN_LANES], largest[KERN_LANES], scales[KERN_LANES], factors[KERN_LANES];
	const float *row[KERN_LANES];
	int64_t n = kern_padded_depth(depth);
	for (int r = 0; r < KERN_LANES; r++) {
		row[r] = r < rows ? x + r * ldx : zeros;
		if (n > depth && r < rows) {
			memcpy(padded[r], row[r], depth * sizeof *x);
			memset(padded[r] + depth, 0, (n - depth) * sizeof *x);
			row[r] = padded[r];
		}
		kern_measure_row(row[r], n, &squares[r], &largest[r]);
	}
	bool uneven = kern_scales_i16(_mm256_loadu_ps(squares), _mm256_loadu_ps(largest), scales, factors);
	memcpy(scale, scales, lanes * sizeof *scale);
	for (int64_t i = 0; i < n; i += KERN_RUN, q += KERN_LANES * ld) {
		__m256i run[KERN_LANES];
		for (int r = 0; r < KERN_LANES; r++) { run[r] = kern_round_run(row[r] + i, _mm256_set1_ps(factors[r])); }
		kern_transpose_8(run);
		for (int s = 0; s < KERN_LANES; s++) {
			uint32_t *to = q + order[s] * ld;
			if (lanes == KERN_LANES) {
				_mm256_storeu_si256((void *)to, run[s]);
			} else {
				_mm_storeu_si128((void *)to, _mm256_castsi256_si128(run[s]));
			}
		}
	}
	return uneven;
}

KERN_AVX2 void kern_pack_a_transposed_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {
	panel->uneven = false;
	for (int r = 0; r < KERN_MR; r += KERN_LANES) {
		panel->uneven |= kern_pack_rows(a + r * ld, ld, m - r, depth, KERN_LANES, panel->scale + r, panel->q[0] + r, KERN_MR);
	}
}

KERN_AVX2 void kern_pack_b_i16(const float *b, int64_t ld, int64_t n, int64_t depth, struct kern_panel_b *panel) {
	panel->uneven = false;
	for (int r = 0; r < KERN_NR; r += KERN_LANES) {
		panel->uneven |= kern_pack_rows(b + r * ld, ld, kern_min(n - r, KERN_NR - r), depth, kern_min(KERN_LANES, KERN_NR - r), panel->scale + r, panel->q[0] + r, KERN_NR);
	}
}

// Packs 8 rows that lie side by side. Returns whether one is uneven.
KERN_INLINE bool kern_pack_lanes(const float *a, int64_t ld, int64_t depth, float *scale, uint32_t *q) {
	__m256 squares = _mm256_setzero_ps(), largest = squares;
	for (int64_t i = 0; i < depth; i++) {
		__m256 v = _mm256_loadu_ps(a + i * ld);
		squares = _mm256_fmadd_ps(v, v, squares);
		largest = _mm256_max_ps(largest, kern_magnitude(v));
	}
	float factors[KERN_LANES];
	bool uneven = kern_scales_i16(squares, largest, scale, factors);
	__m256 factor = _mm256_loadu_ps(factors);
	int64_t padded = kern_padded_depth(depth);
	for (int64_t i = 0; i < padded; i += KERN_STEP_I16, q += KERN_MR) {
		__m256i even = _mm256_setzero_si256(), odd = even;
		if (i < depth) { even = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(a + i * ld), factor)); }
		if (i + 1 < depth) { odd = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(a + (i + 1) * ld), factor)); }
		_mm256_storeu_si256((void *)q, _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa));
	}
	return uneven;
}

KERN_AVX2 void kern_pack_a_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {
	float whole[KERN_KB * KERN_MR];
	a = kern_whole_rows(a, &ld, m, depth, whole);
	panel->uneven = false;
	for (int r = 0; r < KERN_MR; r += KERN_LANES) {
		panel->uneven |= kern_pack_lanes(a + r, ld, depth, panel->scale + r, panel->q[0] + r);
	}
}

#endif
