#include "elementwise.h"
#include "vector.h"

#include <string.h>

// Elements of a step of a vectorised loop, which threads do not divide.
enum { KERN_ELEMENTS_STEP = 64 };

// Rounds the bits of a float.
static inline uint16_t kern_bf16(uint32_t bits) {
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

KERN_CLONES static void kern_round_bf16_clones(const float *from, uint16_t *to, int64_t n) {
	uint32_t bits[KERN_ELEMENTS_STEP];
	for (; n >= KERN_ELEMENTS_STEP; n -= KERN_ELEMENTS_STEP, from += KERN_ELEMENTS_STEP, to += KERN_ELEMENTS_STEP) {
		memcpy(bits, from, sizeof bits);
		for (int i = 0; i < KERN_ELEMENTS_STEP; i++) {
			to[i] = kern_bf16(bits[i]);
		}
	}
	memcpy(bits, from, n * sizeof *bits);
	for (int64_t i = 0; i < n; i++) {
		to[i] = kern_bf16(bits[i]);
	}
}

void kern_round_bf16(const float *from, uint16_t *to, int64_t n) { kern_round_bf16_clones(from, to, n); }

struct kern_share kern_share_of(int64_t n, int ith, int nth) {
	int64_t steps = kern_ceil_div(n, KERN_ELEMENTS_STEP), to = steps * (ith + 1) / nth * KERN_ELEMENTS_STEP;
	return (struct kern_share){steps * ith / nth * KERN_ELEMENTS_STEP, kern_min(to, n)};
}

KERN_OP(cast_bf16) {
	(void)userdata;
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	kern_round_bf16((const float *)dst->src[0]->data + s.from, (uint16_t *)dst->data + s.from, s.to - s.from);
}

enum { KERN_SWIGLU_STEP = 32 };

static inline void kern_swiglu_grad_step(float *up, const float *gate, const float *dy) {
	for (int i = 0; i < KERN_SWIGLU_STEP; i++) {
		float x = gate[i], e = kern_exp(-fabsf(x)), more = 1 / (1 + e), less = e / (1 + e);
		float s = x < 0 ? less : more, not_s = x < 0 ? more : less; // σ(x) and 1 − σ(x)
		up[i] *= dy[i] * s * (1 + x * not_s);
	}
}

KERN_CLONES static void kern_swiglu_grad(float *restrict up, const float *restrict gate, const float *restrict dy, int64_t n) {
	for (; n >= KERN_SWIGLU_STEP; n -= KERN_SWIGLU_STEP, up += KERN_SWIGLU_STEP, gate += KERN_SWIGLU_STEP, dy += KERN_SWIGLU_STEP) {
		kern_swiglu_grad_step(up, gate, dy);
	}
	float rest[3][KERN_SWIGLU_STEP] = {0};
	memcpy(rest[0], up, n * sizeof *up);
	memcpy(rest[1], gate, n * sizeof *gate);
	memcpy(rest[2], dy, n * sizeof *dy);
	kern_swiglu_grad_step(rest[0], rest[1], rest[2]);
	memcpy(up, rest[0], n * sizeof *up);
}

KERN_OP(swiglu_grad) {
	(void)userdata;
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	const float *gate = dst->src[1]->data, *dy = dst->src[2]->data;
	kern_swiglu_grad((float *)dst->data + s.from, gate + s.from, dy + s.from, s.to - s.from);
}
