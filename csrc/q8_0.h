// The blocks of Q8_0, as ggml defines the type.
#ifndef GOGGML_Q8_0_H
#define GOGGML_Q8_0_H

#include <stdint.h>

enum { GOGGML_Q8_0 = 32 };

struct goggml_q8_0 {
	uint16_t d; // F16
	int8_t q[GOGGML_Q8_0];
};

#endif
