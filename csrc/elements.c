//go:build ignore

#include "elements.h"
#include "vector.h"

#include <string.h>

// Elements that become vector instructions, and are not divided among workers.
enum { ELEMENTS_STEP = 64 };

// The bits of a float to BF16, to even. A NaN stays one.
static inline uint16_t goggml_bf16(uint32_t bits) {
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

GOGGML_CLONES static void goggml_round(const float *from, uint16_t *to, int64_t n) {
	uint32_t bits[ELEMENTS_STEP];
	for (; n >= ELEMENTS_STEP; n -= ELEMENTS_STEP, from += ELEMENTS_STEP, to += ELEMENTS_STEP) {
		memcpy(bits, from, sizeof bits);
		for (int i = 0; i < ELEMENTS_STEP; i++) {
			to[i] = goggml_bf16(bits[i]);
		}
	}
	memcpy(bits, from, n * sizeof *bits);
	for (int64_t i = 0; i < n; i++) {
		to[i] = goggml_bf16(bits[i]);
	}
}

// The share of a worker in n elements: whole steps of them.
struct goggml_share {
	int64_t from, to;
};

static struct goggml_share goggml_share_of(int64_t n, int worker, int workers) {
	int64_t steps = (n + ELEMENTS_STEP - 1) / ELEMENTS_STEP, to = steps * (worker + 1) / workers * ELEMENTS_STEP;
	return (struct goggml_share){steps * worker / workers * ELEMENTS_STEP, to < n ? to : n};
}

static void goggml_round_share(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	struct goggml_share s = goggml_share_of(ggml_nelements(dst), worker, workers);
	goggml_round((const float *)dst->src[0]->data + s.from, (uint16_t *)dst->data + s.from, s.to - s.from);
}

enum { SWIGLU_STEP = 32 };

// Puts the gradient of gate into up.
static inline void goggml_swiglu_back_step(float *up, const float *gate, const float *dy) {
	for (int i = 0; i < SWIGLU_STEP; i++) {
		float x = gate[i], e = goggml_exp(-fabsf(x)), more = 1 / (1 + e), less = e / (1 + e);
		float s = x < 0 ? less : more, not_s = x < 0 ? more : less; // σ(x) and 1 − σ(x)
		up[i] *= dy[i] * s * (1 + x * not_s);
	}
}

GOGGML_CLONES static void goggml_swiglu_back(float *restrict up, const float *restrict gate, const float *restrict dy, int64_t n) {
	for (; n >= SWIGLU_STEP; n -= SWIGLU_STEP, up += SWIGLU_STEP, gate += SWIGLU_STEP, dy += SWIGLU_STEP) {
		goggml_swiglu_back_step(up, gate, dy);
	}
	float rest[3][SWIGLU_STEP] = {0};
	memcpy(rest[0], up, n * sizeof *up);
	memcpy(rest[1], gate, n * sizeof *gate);
	memcpy(rest[2], dy, n * sizeof *dy);
	goggml_swiglu_back_step(rest[0], rest[1], rest[2]);
	memcpy(up, rest[0], n * sizeof *up);
}

static void goggml_swiglu_back_share(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	struct goggml_share s = goggml_share_of(ggml_nelements(dst), worker, workers);
	const float *gate = dst->src[1]->data, *dy = dst->src[2]->data;
	goggml_swiglu_back((float *)dst->data + s.from, gate + s.from, dy + s.from, s.to - s.from);
}

goggml_tensor goggml_op_round_bf16(goggml_a arena, goggml_t a) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_BF16, a->ne[0], a->ne[1], a->ne[2], a->ne[3],
		&a, 1, goggml_round_share, GGML_N_TASKS_MAX, NULL))
}

goggml_tensor goggml_op_swiglu_back(goggml_a arena, goggml_t up, goggml_t gate, goggml_t dy) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {gate, dy};
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), up, operands, 2,
		goggml_swiglu_back_share, GGML_N_TASKS_MAX, NULL))
}
