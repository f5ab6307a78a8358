// Products of rows in F16 with columns in F32. The sums of ROWS rows and COLUMNS columns stay in vectors of WIDTH floats.
// Each kind of processor includes this with its own numbers and name.

#include "gemv_f16.h"
#include "lanes.h"

#include <immintrin.h>
#include <string.h>

enum { COLUMNS = 4, AHEAD = 16 << 10 }; // AHEAD is the distance of prefetch in bytes

// Adds the products of a register of each row. `rows` and `columns` are constants.
KERN_F16_TARGET KERN_INLINE void kern_f16_add(lanes sums[COLUMNS][ROWS], const char *w, size_t row_size, const float *x, size_t stride, const int rows, const int columns) {
	lanes row[ROWS];
	KERN_UNROLLED(r, rows) row[r] = (lanes)KERN_F16_LOAD(w + r * row_size);
	KERN_UNROLLED(j, columns) {
		lanes column = LANES_AT((const char *)x + j * stride);
		KERN_UNROLLED(r, rows) sums[j][r] += row[r] * column;
	}
}

KERN_F16_TARGET KERN_INLINE void kern_f16_tile(float *y, int64_t ldy, int64_t k, const char *w, size_t row_size, const char *x, size_t stride, const int rows, const int columns) {
	lanes sums[COLUMNS][ROWS] = {{{0}}};
	int64_t i = 0;
	for (; i + WIDTH <= k; i += WIDTH) {
		// In the order of memory: the hardware prefetcher stops at each page, and a row may fill one.
		for (int b = 0; b < rows * WIDTH * (int)sizeof(uint16_t); b += 64) {
			__builtin_prefetch(w + AHEAD + i * rows * sizeof(uint16_t) + b, 0, 2); // into L2: L1 has no room
		}
		kern_f16_add(sums, w + i * sizeof(uint16_t), row_size, (const float *)x + i, stride, rows, columns);
	}
	if (i < k) {
		uint16_t rest[ROWS][WIDTH] = {{0}};
		KERN_UNROLLED(r, rows) memcpy(rest[r], w + r * row_size + i * sizeof(uint16_t), (k - i) * sizeof(uint16_t));
		kern_f16_add(sums, (const char *)rest, sizeof rest[0], (const float *)x + i, stride, rows, columns);
	}
	KERN_UNROLLED(j, columns) {
		KERN_UNROLLED(r, rows) y[j * ldy + r] = kern_sum(&sums[j][r]);
	}
}

KERN_F16_TARGET KERN_INLINE void kern_f16_rows(float *y, int64_t ldy, int64_t k, const char *w, size_t row_size, const char *x, size_t stride, int64_t n, const int rows) {
	for (; n >= COLUMNS; n -= COLUMNS, y += COLUMNS * ldy, x += COLUMNS * stride) {
		kern_f16_tile(y, ldy, k, w, row_size, x, stride, rows, COLUMNS);
	}
	switch (n) {
	case 1: kern_f16_tile(y, ldy, k, w, row_size, x, stride, rows, 1); break;
	case 2: kern_f16_tile(y, ldy, k, w, row_size, x, stride, rows, 2); break;
	case 3: kern_f16_tile(y, ldy, k, w, row_size, x, stride, rows, 3); break;
	}
}

KERN_F16_TARGET void KERN_F16_NAME(float *y, int64_t ldy, int64_t k, int64_t m, const char *w, size_t row_size, const char *x, size_t stride, int64_t n) {
	for (; m >= ROWS; m -= ROWS, y += ROWS, w += ROWS * row_size) {
		kern_f16_rows(y, ldy, k, w, row_size, x, stride, n, ROWS);
	}
	for (; m > 0; m--, y++, w += row_size) {
		kern_f16_rows(y, ldy, k, w, row_size, x, stride, n, 1);
	}
}
