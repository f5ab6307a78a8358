// Blocks of 32 elements of quantised types, as ggml defines them.
#ifndef KERN_BLOCKS_H
#define KERN_BLOCKS_H

#include <stdint.h>

// Elements in a block.
enum { KERN_BLOCK = 32 };

struct kern_q8_0 {
	uint16_t d; // F16
	int8_t q[KERN_BLOCK];
};

// Q4_0 and IQ4_NL: the lower bits are the first half.
struct kern_q4 {
	uint16_t d;
	uint8_t q[KERN_BLOCK / 2];
};

#endif
