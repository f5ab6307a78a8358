//go:build ignore

#include "transpose.h"

// Elements [r0, r1) × [c0, c1).
static void goggml_transpose_part(const float *from, int64_t columns, float *to, int64_t distance, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
	for (int64_t c = c0; c < c1; c++) {
		for (int64_t r = r0; r < r1; r++) {
			to[c * distance + r] = from[r * columns + c];
		}
	}
}

#if defined(__x86_64__)

#include <immintrin.h>

enum { SQUARE = 16 };

// SQUARE rows of as many elements, in registers: pairs change places at a distance of 1, 2, 4 and 8.
__attribute__((target("avx512f"))) static void goggml_transpose_square(const float *from, int64_t columns, float *to, int64_t distance) {
	__m512 a[SQUARE], b[SQUARE];
	for (int i = 0; i < SQUARE; i++) { a[i] = _mm512_loadu_ps(from + i * columns); }
	for (int i = 0; i < SQUARE; i += 2) {
		b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
		b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
	}
	for (int i = 0; i < SQUARE; i += 4) {
		for (int j = 0; j < 2; j++) {
			__m512d first = _mm512_castps_pd(b[i + j]), second = _mm512_castps_pd(b[i + 2 + j]);
			a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
			a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(first, second));
		}
	}
	for (int i = 0; i < SQUARE; i += 8) {
		for (int j = 0; j < 4; j++) {
			b[i + j] = _mm512_shuffle_f32x4(a[i + j], a[i + 4 + j], 0x88);
			b[i + 4 + j] = _mm512_shuffle_f32x4(a[i + j], a[i + 4 + j], 0xdd);
		}
	}
	for (int j = 0; j < 8; j++) {
		_mm512_storeu_ps(to + j * distance, _mm512_shuffle_f32x4(b[j], b[j + 8], 0x88));
		_mm512_storeu_ps(to + (j + 8) * distance, _mm512_shuffle_f32x4(b[j], b[j + 8], 0xdd));
	}
}

void goggml_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t distance) {
	int64_t r = 0, c = 0;
	if (__builtin_cpu_supports("avx512f")) {
		for (c = 0; c + SQUARE <= columns; c += SQUARE) {
			for (r = 0; r + SQUARE <= rows; r += SQUARE) {
				goggml_transpose_square(from + r * columns + c, columns, to + c * distance + r, distance);
			}
		}
	}
	goggml_transpose_part(from, columns, to, distance, r, rows, 0, c);
	goggml_transpose_part(from, columns, to, distance, 0, rows, c, columns);
}

#else

void goggml_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t distance) {
	goggml_transpose_part(from, columns, to, distance, 0, rows, 0, columns);
}

#endif
