#include "transpose.h"
#include "isa.h"

// Elements [r0, r1) × [c0, c1).
static void kern_transpose_scalar(const float *from, int64_t columns, float *to, int64_t ld, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
	for (int64_t c = c0; c < c1; c++) {
		for (int64_t r = r0; r < r1; r++) {
			to[c * ld + r] = from[r * columns + c];
		}
	}
}

#if defined(__x86_64__)

#include <immintrin.h>

enum { KERN_SQUARE = 16 };

// Transposes KERN_SQUARE × KERN_SQUARE elements in registers, by exchanging elements at distances
// 1, 2, 4 and 8.
__attribute__((target("avx512f"))) static void kern_transpose_square(const float *from, int64_t columns, float *to, int64_t ld) {
	__m512 a[KERN_SQUARE], b[KERN_SQUARE];
	for (int i = 0; i < KERN_SQUARE; i++) { a[i] = _mm512_loadu_ps(from + i * columns); }
	for (int i = 0; i < KERN_SQUARE; i += 2) {
		b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
		b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
	}
	for (int i = 0; i < KERN_SQUARE; i += 4) {
		for (int j = 0; j < 2; j++) {
			__m512d first = _mm512_castps_pd(b[i + j]), second = _mm512_castps_pd(b[i + 2 + j]);
			a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
			a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(first, second));
		}
	}
	for (int i = 0; i < KERN_SQUARE; i += 8) {
		for (int j = 0; j < 4; j++) {
			b[i + j] = _mm512_shuffle_f32x4(a[i + j], a[i + 4 + j], 0x88);
			b[i + 4 + j] = _mm512_shuffle_f32x4(a[i + j], a[i + 4 + j], 0xdd);
		}
	}
	for (int j = 0; j < 8; j++) {
		_mm512_storeu_ps(to + j * ld, _mm512_shuffle_f32x4(b[j], b[j + 8], 0x88));
		_mm512_storeu_ps(to + (j + 8) * ld, _mm512_shuffle_f32x4(b[j], b[j + 8], 0xdd));
	}
}

void kern_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t ld) {
	int64_t r = 0, c = 0;
	if (kern_isa_avx512()) {
		for (c = 0; c + KERN_SQUARE <= columns; c += KERN_SQUARE) {
			for (r = 0; r + KERN_SQUARE <= rows; r += KERN_SQUARE) {
				kern_transpose_square(from + r * columns + c, columns, to + c * ld + r, ld);
			}
		}
	}
	kern_transpose_scalar(from, columns, to, ld, r, rows, 0, c);
	kern_transpose_scalar(from, columns, to, ld, 0, rows, c, columns);
}

#else

void kern_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t ld) {
	kern_transpose_scalar(from, columns, to, ld, 0, rows, 0, columns);
}

#endif
