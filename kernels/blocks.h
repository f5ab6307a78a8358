// Blocks of 32 elements of quantised types, and super-blocks of 256, as ggml defines them.
#ifndef KERN_BLOCKS_H
#define KERN_BLOCKS_H

#include <stdint.h>
#include <string.h>

// Elements in a block and in a super-block.
enum { KERN_BLOCK = 32, KERN_SUPER_BLOCK = 256 };

struct kern_q8_0 {
	uint16_t d; // F16
	int8_t q[KERN_BLOCK];
};

// Q4_0 and IQ4_NL: the low nibbles are the first half of the elements.
struct kern_q4 {
	uint16_t d;
	uint8_t q[KERN_BLOCK / 2];
};

// Head of Q4_K and Q5_K: a value is d · scale · q − min · minimum, with a 6-bit scale and minimum
// per 32 elements.
struct kern_k_head {
	uint16_t d, min;
	uint8_t scales[12];
};

struct kern_q4_k {
	struct kern_k_head head;
	uint8_t q[KERN_SUPER_BLOCK / 2]; // nibbles of pairs of 32 elements
};

struct kern_q5_k {
	struct kern_k_head head;
	uint8_t high[KERN_BLOCK]; // bit i of each byte belongs to the i-th 32 elements
	uint8_t q[KERN_SUPER_BLOCK / 2];
};

// A value is d · scale · (q − 32), with a scale per 16 elements.
struct kern_q6_k {
	uint8_t low[KERN_SUPER_BLOCK / 2];  // low 4 bits, of pairs of 32 elements
	uint8_t high[KERN_SUPER_BLOCK / 4]; // high 2 bits, of fours of 32 elements
	int8_t scales[KERN_SUPER_BLOCK / 16];
	uint16_t d;
};

// The values of 4-bit elements of IQ4_NL and IQ4_XS, and twice the values of E2M1, a float of 4 bits.
static const int8_t kern_iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t kern_e2m1_table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 6-bit scales: four bits in one field, two in another.
struct kern_iq4_xs {
	uint16_t d, high;
	uint8_t low[KERN_SUPER_BLOCK / KERN_BLOCK / 2], q[KERN_SUPER_BLOCK / 2];
};

// Returns the scale of the i-th 32 elements.
static inline int kern_iq4_xs_scale(const struct kern_iq4_xs *b, int i) {
	return ((b->low[i / 2] >> i % 2 * 4 & 15) | (b->high >> 2 * i & 3) << 4) - 32;
}

// The scale is 2^(e − 127), E8M0.
struct kern_mxfp4 {
	uint8_t e, q[KERN_BLOCK / 2];
};

static inline float kern_from_bits(uint32_t bits) {
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

// Returns half of a scale.
static inline float kern_half_e8m0(uint8_t e) { return kern_from_bits(e < 2 ? UINT32_C(0x200000) << e : (uint32_t)(e - 1) << 23); }

#endif
