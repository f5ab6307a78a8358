// Blocks of 32 elements of quantised types, and super-blocks of 256, as ggml defines them.
#ifndef KERN_BLOCKS_H
#define KERN_BLOCKS_H

#include <stdint.h>

// Elements in a block and in a super-block.
enum { KERN_BLOCK = 32, KERN_SUPER_BLOCK = 256 };

struct kern_q8_0 {
	uint16_t d; // F16
	int8_t q[KERN_BLOCK];
};

// Q4_0 and IQ4_NL: the lower bits are the first half.
struct kern_q4 {
	uint16_t d;
	uint8_t q[KERN_BLOCK / 2];
};

// What begins the blocks of Q4_K and Q5_K: a value is d · scale · q − min · minimum, with six bits for the scale and
// the minimum of each 32 elements.
struct kern_k_head {
	uint16_t d, min;
	uint8_t scales[12];
};

struct kern_q4_k {
	struct kern_k_head head;
	uint8_t q[KERN_SUPER_BLOCK / 2]; // twice 32 elements side by side
};

struct kern_q5_k {
	struct kern_k_head head;
	uint8_t high[KERN_BLOCK]; // a bit of each 32 elements
	uint8_t q[KERN_SUPER_BLOCK / 2];
};

// A value is d · scale · (q − 32), with a scale for each 16 elements.
struct kern_q6_k {
	uint8_t low[KERN_SUPER_BLOCK / 2];  // four bits, of twice 32 elements side by side
	uint8_t high[KERN_SUPER_BLOCK / 4]; // two bits, of four times 32
	int8_t scales[KERN_SUPER_BLOCK / 16];
	uint16_t d;
};

#endif
