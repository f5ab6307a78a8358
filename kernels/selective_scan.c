#include "selective_scan.h"
#include "chunks.h"
#include "isa.h"
#include "scratch.h"
#include "selective_scan_next.h"
#include "vector.h"

// The fastest for the processor.
static const struct kern_scan_isa *kern_scan_find(void) {
#if defined(__x86_64__)
	return kern_isa_avx512() ? &kern_scan_avx512 : kern_isa_avx2() ? &kern_scan_avx2 : &kern_scan_plain;
#else
	return &kern_scan_plain;
#endif
}

// softplus(x) = max(x, 0) + log(1 + e) with e = e^−|x|, and log(1 + e) = 2·atanh(s) with s = e / (2 + e), by its series.
__attribute__((always_inline)) static inline float kern_softplus(float x) {
	float e = kern_exp(-fabsf(x)), s = e / (2 + e), q = s * s;
	float p = 1.0f / 15;
	p = p * q + 1.0f / 13;
	p = p * q + 1.0f / 11;
	p = p * q + 1.0f / 9;
	p = p * q + 1.0f / 7;
	p = p * q + 1.0f / 5;
	p = p * q + 1.0f / 3;
	return kern_select(x > 0, x, 0) + 2 * (s + s * q * p);
}

// Turns dt of n tokens into steps, and writes how much of a state each token keeps.
KERN_CLONES static void kern_scan_steps(float *restrict steps, float *restrict decays, float a, int64_t n) {
	KERN_EACH(i, n,
		steps[i] = kern_softplus(steps[i]);
		float z = steps[i] * a;
		decays[i] = kern_select(z > 88.7f, INFINITY, kern_exp(z))) // above, e^z is infinite in F32
}

// All tokens of a head. The state is in the written vector after the first tokens.
static void kern_scan_all(const struct kern_scan_isa *isa, float *to, const float *from, struct kern_scan h) {
	while (h.n > 0) {
		int64_t tokens = isa->next(to, from, &h);
		from = to, h.n -= tokens, h.steps += tokens, h.decays += tokens, h.dots += tokens * KERN_SCAN_TOKENS;
		h.x = kern_head_from(h.x, tokens), h.b = kern_head_from(h.b, tokens), h.c = kern_head_from(h.c, tokens), h.y = kern_head_from(h.y, tokens);
	}
}

static int64_t kern_scan_group(const struct ggml_tensor *y, int64_t head) { return head / (y->ne[1] / y->src[3]->ne[1]); }

// The operands of a head of a row, without steps and decays. dots are the dot products of all rows.
static struct kern_scan kern_scan_of(struct ggml_tensor *y, int64_t row, int64_t head, float *dots) {
	const struct ggml_tensor *x = y->src[0], *b = y->src[3], *c = y->src[4];
	int64_t group = kern_scan_group(y, head);
	const struct kern_scan_params *p = kern_params(y);
	const struct ggml_tensor *skip = kern_optional(y, p->d);
	return (struct kern_scan){
		.x = kern_head_of(x, head, row), .b = kern_head_of(b, group, row), .c = kern_head_of(c, group, row), .y = kern_head_of(y, head, row),
		.dots = dots + row * x->ne[2] * KERN_SCAN_TOKENS, .skip = skip == NULL ? 0 : ((const float *)skip->data)[head],
		.size = x->ne[0], .d = b->ne[0], .n = x->ne[2],
	};
}

// The vector of a row by its number; NULL if there is none of that number.
static float *kern_scan_vector(const struct ggml_tensor *states, const struct ggml_tensor *numbers, int64_t row) {
	int32_t number = ((const int32_t *)numbers->data)[row];
	return number < 0 || number >= states->ne[1] ? NULL : (float *)states->data + number * states->ne[0];
}

static void kern_scan_unknown(const struct kern_scan *h) {
	for (int64_t k = 0; k < h->n; k++) {
		for (int64_t i = 0; i < h->size; i++) {
			kern_vector(h->y, k)[i] = NAN;
		}
	}
}

// A head of a row.
static void kern_scan_head(const struct kern_scan_isa *isa, struct ggml_tensor *y, int64_t row, int64_t head, float *dots) {
	const struct ggml_tensor *dt = y->src[1], *states = y->src[5];
	float *from = kern_scan_vector(states, y->src[6], row), *to = kern_scan_vector(states, y->src[7], row);
	int64_t at = states->ne[0] / y->ne[1] * head;
	struct kern_scan h = kern_scan_of(y, row, head, dots);
	if (from == NULL || to == NULL) {
		kern_scan_unknown(&h);
		return;
	}
	float *steps = kern_scratch(KERN_SCRATCH_ROW, 2 * h.n * sizeof *steps);
	for (int64_t k = 0; k < h.n; k++) {
		steps[k] = ((const float *)((const char *)dt->data + k * dt->nb[1] + row * dt->nb[2]))[head];
	}
	h.steps = steps, h.decays = steps + h.n;
	kern_scan_steps(steps, steps + h.n, ((const float *)y->src[2]->data)[head], h.n);
	kern_scan_all(isa, to + at, from + at, h);
}

// The dots of all rows, which the heads of a group share.
static void kern_scan_group_dots(const struct kern_scan_isa *isa, struct ggml_tensor *y, int64_t head, float *dots) {
	for (int64_t row = 0; row < y->ne[3]; row++) {
		struct kern_scan h = kern_scan_of(y, row, head, dots);
		isa->dots(&h);
	}
}

// A chunk is a head of all rows, so that rows with a vector in common follow each other.
KERN_OP(selective_scan) {
	(void)userdata;
	(void)ith;
	const struct kern_scan_isa *isa = kern_scan_find();
	float *dots = kern_scratch(KERN_SCRATCH_TILE, dst->ne[2] * dst->ne[3] * KERN_SCAN_TOKENS * sizeof *dots);
	int64_t group = -1; // that dots belong to
	for (int64_t head; (head = kern_next_chunk(dst, dst->ne[1], nth)) >= 0;) {
		if (group != kern_scan_group(dst, head)) {
			group = kern_scan_group(dst, head);
			kern_scan_group_dots(isa, dst, head, dots);
		}
		for (int64_t row = 0; row < dst->ne[3]; row++) {
			kern_scan_head(isa, dst, row, head, dots);
		}
	}
}
