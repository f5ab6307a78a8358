// Blocks of 32 elements of quantised types, as ggml defines them.
#ifndef GOGGML_BLOCKS_H
#define GOGGML_BLOCKS_H

#include <stdint.h>

// Elements of a block.
enum { GOGGML_BLOCK = 32 };

struct goggml_q8_0 {
	uint16_t d; // F16
	int8_t q[GOGGML_BLOCK];
};

// Q4_0 and IQ4_NL: the lower bits are the first half.
struct goggml_q4 {
	uint16_t d;
	uint8_t q[GOGGML_BLOCK / 2];
};

#endif
