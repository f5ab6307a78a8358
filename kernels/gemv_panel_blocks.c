#if defined(__x86_64__) && defined(__linux__)

#include "gemv_panel.h"
#include "gemv_vnni_blocks.h"

#include <string.h>

enum { KERN_BLOCK_FOURS = KERN_BLOCK / 4 };

// The part of a packed column for one panel, with the correction of each block.
struct kern_block_column {
	_Alignas(64) int8_t q[KERN_PANEL_K];
	int32_t correction[KERN_PART_BLOCKS];
	float d[KERN_PART_BLOCKS];
};

struct kern_block_panel {
	__m512i q[KERN_FOURS];
	__m512 d[KERN_PART_BLOCKS];
};

static size_t kern_block_size(int64_t k) { return (size_t)((k + KERN_PANEL_K - 1) / KERN_PANEL_K) * sizeof(struct kern_block_column); }

// Quantises columns to 8 bits with a scale per block, as Q8_0 does.
KERN_VNNI_INLINE void kern_pack_blocks(const float *x, void *column, int64_t k, int zero_point) {
	struct kern_block_column *parts = column;
	memset(parts, 0, kern_block_size(k));
	for (int64_t i = 0; i < k / KERN_BLOCK; i++, x += KERN_BLOCK) {
		struct kern_block_column *p = parts + i / KERN_PART_BLOCKS;
		int block = (int)(i % KERN_PART_BLOCKS);
		__m256i q = kern_quantize_block(x, &p->d[block]);
		_mm256_storeu_si256((void *)(p->q + block * KERN_BLOCK), q);
		p->correction[block] = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(kern_correction(q, zero_point)));
	}
}

// The sum of a block is an integer; each block has its own scale.
KERN_VNNI_INLINE void kern_multiply_blocks(__m512 *sums, const void *panel, const char *columns, size_t stride, const int n) {
	const struct kern_block_panel *w = panel;
	__m512 s[KERN_NR];
#pragma GCC unroll 8
	for (int j = 0; j < n; j++) { s[j] = sums[j]; }
	for (int b = 0; b < KERN_PART_BLOCKS; b++) {
		__m512i products[KERN_NR];
#pragma GCC unroll 8
		for (int j = 0; j < n; j++) {
			const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
			products[j] = _mm512_set1_epi32(x->correction[b]);
		}
#pragma GCC unroll 8
		for (int i = 0; i < KERN_BLOCK_FOURS; i++) {
			__m512i q = w->q[b * KERN_BLOCK_FOURS + i];
#pragma GCC unroll 8
			for (int j = 0; j < n; j++) {
				const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
				products[j] = _mm512_dpbusd_epi32(products[j], q, kern_broadcast_four(x->q + b * KERN_BLOCK + 4 * i));
			}
		}
#pragma GCC unroll 8
		for (int j = 0; j < n; j++) {
			const struct kern_block_column *x = (const void *)(columns + (size_t)j * stride);
			s[j] = _mm512_fmadd_ps(_mm512_mul_ps(w->d[b], _mm512_set1_ps(x->d[b])), _mm512_cvtepi32_ps(products[j]), s[j]);
		}
	}
#pragma GCC unroll 8
	for (int j = 0; j < n; j++) { sums[j] = s[j]; }
}
KERN_PANEL_WIDTHS(kern_multiply_blocks)

// Transposes the scales of eight blocks of each row.
KERN_VNNI_INLINE void kern_transpose_scales(struct kern_block_panel *panel, const float (*scales)[KERN_PART_BLOCKS]) {
	const char *rows[KERN_MR];
	for (int i = 0; i < KERN_MR; i++) { rows[i] = (const char *)scales[i]; }
	kern_load_transposed((__m512i *)panel->d, rows, 0);
	kern_load_transposed((__m512i *)panel->d + 4, rows, 16);
}

// Q8_0

KERN_VNNI static void kern_pack_q8_0(const float *x, void *column, int64_t k) { kern_pack_blocks(x, column, k, KERN_ZERO_POINT_Q8_0); }

KERN_VNNI_INLINE void kern_unpack_blocks_q8_0(struct kern_block_panel *panel, const char *const *rows) {
	float scales[KERN_MR][KERN_PART_BLOCKS];
	for (int i = 0; i < KERN_MR; i++) { _mm256_storeu_ps(scales[i], kern_scales_q8_0((const void *)rows[i])); }
	kern_transpose_scales(panel, scales);
	for (int b = 0; b < KERN_PART_BLOCKS; b++) {
		__m512i *q = panel->q + b * KERN_BLOCK_FOURS;
		size_t offset = (size_t)b * sizeof(struct kern_q8_0) + offsetof(struct kern_q8_0, q);
		kern_load_transposed(q, rows, offset);
		kern_load_transposed(q + 4, rows, offset + 16);
#pragma GCC unroll 8
		for (int i = 0; i < KERN_BLOCK_FOURS; i++) { q[i] = _mm512_xor_si512(q[i], _mm512_set1_epi8((char)KERN_ZERO_POINT_Q8_0)); }
	}
}

// Q4_0: the low nibbles are the first half of a block.

KERN_VNNI static void kern_pack_q4_0(const float *x, void *column, int64_t k) { kern_pack_blocks(x, column, k, KERN_ZERO_POINT_Q4_0); }

KERN_VNNI_INLINE void kern_unpack_blocks_q4_0(struct kern_block_panel *panel, const char *const *rows) {
	float scales[KERN_MR][KERN_PART_BLOCKS];
	for (int i = 0; i < KERN_MR; i++) { _mm256_storeu_ps(scales[i], kern_scales_q4_0((const void *)rows[i])); }
	kern_transpose_scales(panel, scales);
	for (int b = 0; b < KERN_PART_BLOCKS; b++) {
		__m512i *q = panel->q + b * KERN_BLOCK_FOURS, nibbles[4];
		kern_load_transposed(nibbles, rows, (size_t)b * sizeof(struct kern_q4) + offsetof(struct kern_q4, q));
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			q[i] = kern_and_bytes(nibbles[i], 15);
			q[i + 4] = kern_and_bytes(_mm512_srli_epi16(nibbles[i], 4), 15);
		}
	}
}

// A row's last part may have fewer blocks: the others are zero.
#define KERN_PANEL_BLOCK_TYPE(type, block) \
	KERN_VNNI static void kern_unpack_##type(void *panel, const char *const *rows, int64_t k) { \
		if (k >= KERN_PANEL_K) { \
			kern_unpack_blocks_##type(panel, rows); \
			return; \
		} \
		struct block rest[KERN_MR][KERN_PART_BLOCKS] = {0}; \
		const char *padded[KERN_MR]; \
		for (int i = 0; i < KERN_MR; i++) { padded[i] = memcpy(rest[i], rows[i], (size_t)(k / KERN_BLOCK) * sizeof **rest); } \
		kern_unpack_blocks_##type(panel, padded); \
	} \
	KERN_PANEL_MULTIPLY(type, kern_block_panel, kern_block_column, KERN_PART_BLOCKS * sizeof(struct block), kern_multiply_blocks)

KERN_PANEL_BLOCK_TYPE(q8_0, kern_q8_0)
KERN_PANEL_BLOCK_TYPE(q4_0, kern_q4)

const struct kern_gemv_kernel kern_panel_q8_0 = {kern_block_size, kern_pack_q8_0, kern_multiply_q8_0};
const struct kern_gemv_kernel kern_panel_q4_0 = {kern_block_size, kern_pack_q4_0, kern_multiply_q4_0};

#endif
