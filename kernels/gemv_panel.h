// Panels for products with AVX512-VNNI: 256 elements of each of 16 rows, unpacked and interleaved as in BLIS. A
// register has four elements of every row. vpdpbusd multiplies it with the same four elements of a column, so each
// lane adds up the product of its row, and no register is summed across. Unpacking pays from about four columns on.
#ifndef KERN_GEMV_PANEL_H
#define KERN_GEMV_PANEL_H

#include "gemv_vnni.h"
#include "vnni.h"

enum {
	KERN_MR = 16,       // rows of a panel
	KERN_NR = 8,        // columns that are multiplied at once, with the sums in registers
	KERN_PANEL_K = 256, // elements of a row in a panel
	KERN_PANEL_NC = 32, // columns per unpacked panel
	KERN_FOURS = KERN_PANEL_K / 4,
};

// Loads 16 bytes at an offset of each row, and transposes them: out[i] has the i-th four bytes of all rows.
KERN_VNNI_INLINE void kern_load_transposed(__m512i *out, const char *const *rows, size_t offset) {
	__m512i g[4]; // rows i, i + 4, i + 8, i + 12
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		g[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(rows[i] + offset)));
		g[i] = _mm512_mask_broadcast_i32x4(g[i], 0x00f0, _mm_loadu_si128((const void *)(rows[i + 4] + offset)));
		g[i] = _mm512_mask_broadcast_i32x4(g[i], 0x0f00, _mm_loadu_si128((const void *)(rows[i + 8] + offset)));
		g[i] = _mm512_mask_broadcast_i32x4(g[i], 0xf000, _mm_loadu_si128((const void *)(rows[i + 12] + offset)));
	}
	__m512i a = _mm512_unpacklo_epi32(g[0], g[1]), b = _mm512_unpacklo_epi32(g[2], g[3]);
	__m512i c = _mm512_unpackhi_epi32(g[0], g[1]), d = _mm512_unpackhi_epi32(g[2], g[3]);
	out[0] = _mm512_unpacklo_epi64(a, b);
	out[1] = _mm512_unpackhi_epi64(a, b);
	out[2] = _mm512_unpacklo_epi64(c, d);
	out[3] = _mm512_unpackhi_epi64(c, d);
}

// Prefetches into the L2 cache: L1 has no room for the next rows, and few fill buffers.
KERN_VNNI_INLINE void kern_prefetch_l2(const char *from, size_t size) {
	for (size_t i = 0; i < size; i += 64) { __builtin_prefetch(from + i, 0, 2); }
}

// Returns four bytes of a column in all lanes.
KERN_VNNI_INLINE __m512i kern_broadcast_four(const void *bytes) { return _mm512_set1_epi32(*(const int32_t *)bytes); }

KERN_VNNI_INLINE __m512i kern_and_bytes(__m512i x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi8((char)mask)); }

// A product of a panel with n columns, stride bytes apart, which it adds to a register of sums a column.
typedef void kern_multiply_panel_t(__m512 *sums, const void *panel, const char *columns, size_t stride);

// Defines NAME_of, the functions that multiply a panel with 1 to KERN_NR columns, by NAME with a constant n.
#define KERN_PANEL_WIDTHS(name) \
	KERN_VNNI static void name##_1(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 1); } \
	KERN_VNNI static void name##_2(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 2); } \
	KERN_VNNI static void name##_3(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 3); } \
	KERN_VNNI static void name##_4(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 4); } \
	KERN_VNNI static void name##_5(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 5); } \
	KERN_VNNI static void name##_6(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 6); } \
	KERN_VNNI static void name##_7(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 7); } \
	KERN_VNNI static void name##_8(__m512 *s, const void *p, const char *c, size_t stride) { name(s, p, c, stride, 8); } \
	static kern_multiply_panel_t *const name##_of[KERN_NR] = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8};

// Adds the products of a panel with n columns, in groups of about equal size.
KERN_VNNI_INLINE void kern_multiply_panel(kern_multiply_panel_t *const *of, __m512 *sums, const void *panel, const char *columns, size_t stride, int64_t n) {
	for (int64_t groups = (n + KERN_NR - 1) / KERN_NR, some; groups > 0; groups--, n -= some, sums += some, columns += some * stride) {
		some = (n + groups - 1) / groups;
		of[some - 1](sums, panel, columns, stride);
	}
}

// How a type is multiplied: its panel, and the parts of rows and of packed columns that it consists of.
struct kern_panel_kind {
	size_t row_part, column_part;
	kern_multiply_panel_t *const *of;
	void (*unpack)(void *panel, const char *const *rows, int64_t k);
};

// Multiplies the rows of a panel with up to KERN_PANEL_NC columns. Missing rows repeat the last one. The next rows are
// prefetched in the order of memory, a share with each panel.
KERN_VNNI_INLINE void kern_multiply_rows(const struct kern_panel_kind kind, void *panel, float *y, int64_t ldy, int64_t k, int64_t m,
		const char *w, size_t row_size, const char *columns, size_t stride, int64_t n) {
	__m512 sums[KERN_PANEL_NC];
	for (int64_t j = 0; j < n; j++) { sums[j] = _mm512_setzero_ps(); }
	const char *rows[KERN_MR], *ahead = w + KERN_MR * row_size;
	for (int64_t i = 0; i < KERN_MR; i++) { rows[i] = w + (size_t)(i < m ? i : m - 1) * row_size; }
	for (; k > 0; k -= KERN_PANEL_K, columns += kind.column_part) {
		kind.unpack(panel, rows, k);
		for (int i = 0; i < KERN_MR; i++) { rows[i] += kind.row_part; }
		kern_prefetch_l2(ahead, KERN_MR * kind.row_part);
		ahead += KERN_MR * kind.row_part;
		kern_multiply_panel(kind.of, sums, panel, columns, stride, n);
	}
	__mmask16 mask = m < KERN_MR ? (__mmask16)((1 << m) - 1) : (__mmask16)0xffff;
	for (int64_t j = 0; j < n; j++) { _mm512_mask_storeu_ps(y + j * ldy, mask, sums[j]); }
}

// Defines kern_multiply_TYPE of struct kern_gemv_kernel, with panels of a struct.
#define KERN_PANEL_MULTIPLY(type, panel_struct, part_struct, row_part_size, products) \
	KERN_VNNI static void kern_multiply_##type(float *y, int64_t ldy, int64_t k, int64_t m, \
			const char *w, size_t row_size, const char *columns, size_t stride, int64_t n) { \
		const struct kern_panel_kind kind = {row_part_size, sizeof(struct part_struct), products##_of, kern_unpack_##type}; \
		struct panel_struct panel; \
		for (; m > 0; m -= KERN_MR, y += KERN_MR, w += KERN_MR * row_size) { \
			for (int64_t j = 0; j < n; j += KERN_PANEL_NC) { \
				kern_multiply_rows(kind, &panel, y + j * ldy, ldy, k, m, w, row_size, \
					columns + j * stride, stride, n - j < KERN_PANEL_NC ? n - j : KERN_PANEL_NC); \
			} \
		} \
	}

#endif
