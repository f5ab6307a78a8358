#include "delta_rule_chunk.h"
#include "scratch.h"
#include "transpose.h"

#include <string.h>

void kern_delta_chunks(const struct kern_delta_head *h, float *y) {
	struct kern_delta_arena a = kern_delta_arena(h, kern_delta_ld(h->size) * (h->size + KERN_DELTA_CHUNK));
	struct kern_delta_chunk c = kern_delta_chunk(&a, h);
	float *s = kern_delta_take(&a, c.ld * c.size), *result = kern_delta_take(&a, c.ld * KERN_DELTA_CHUNK);
	float scale = 1 / sqrtf((float)c.size);
	struct kern_gemm seen = {.m = c.size, .n = KERN_DELTA_CHUNK, .k = c.size, .lda = c.ld, .ldb = c.ld, .ldc = c.ld}, read = seen;
	read.k = read.ldb = KERN_DELTA_CHUNK, read.accumulate = true;
	if (h->state != NULL) {
		kern_transpose(h->state, c.size, c.size, s, c.ld);
	} else {
		memset(s, 0, c.ld * c.size * sizeof *s);
	}
	for (int64_t from = 0; from < h->n; from += KERN_DELTA_CHUNK) {
		kern_delta_read_chunk(&c, h, from);
		kern_delta_correct(&c, s);
		kern_delta_score(&c, h, from);
		kern_delta_product(&c, seen, s, c.q, c.scaled);
		kern_delta_scale(&c, result, c.scaled, c.from_state, 1);
		kern_delta_product(&c, read, c.added, c.scores, result);
		kern_delta_multiply(result, scale, c.ld * KERN_DELTA_CHUNK);
		kern_delta_scatter(&c, y + from * h->y_stride, h->y_stride, result);
		kern_delta_advance(&c, s);
	}
	for (int64_t i = 0; h->after != NULL && i < c.size * c.size; i++) {
		h->after[i] = s[i % c.size * c.ld + i / c.size];
	}
}

// The gradients of a chunk.
struct kern_delta_back {
	float *dy;                    // [ld, tokens], times 1/√size
	float *rest, *added;          // [ld, tokens]
	float *seen;                  // of S·q_t, then of S·read_t, [ld, 2·tokens]
	float *q;                     // of q, then of read, [ld, 2·tokens]
	float *k;                     // [ld, tokens]
	float *scores, *reads;        // [tokens, tokens]
	float *s;                     // of the state after the chunk, then before it
	float logs[KERN_DELTA_CHUNK]; // of the logarithm of the decay from the state before the chunk to a token
};

static struct kern_delta_back kern_delta_back_memory(struct kern_delta_arena *a, const struct kern_delta_chunk *c) {
	int64_t matrix = c->ld * KERN_DELTA_CHUNK;
	struct kern_delta_back b = {kern_delta_take(a, matrix), kern_delta_take(a, matrix), kern_delta_take(a, matrix)};
	b.seen = kern_delta_take(a, 2 * matrix), b.q = kern_delta_take(a, 2 * matrix), b.k = kern_delta_take(a, matrix);
	b.scores = kern_delta_take(a, KERN_DELTA_SQUARE), b.reads = kern_delta_take(a, KERN_DELTA_SQUARE);
	b.s = kern_delta_take(a, c->ld * c->size);
	return b;
}

// The gradients of added, by scores and by the state after the chunk.
static void kern_delta_back_added(struct kern_delta_back *b, const struct kern_delta_chunk *c) {
	enum { CHUNK = KERN_DELTA_CHUNK };
	struct kern_gemm by_scores = {.trans_b = true, .m = c->size, .n = CHUNK, .k = CHUNK, .lda = c->ld, .ldb = CHUNK, .ldc = c->ld};
	kern_delta_product(c, by_scores, b->dy, c->scores, b->added);
	kern_delta_scale(c, c->scaled, c->k, c->to_end, 1);
	struct kern_gemm by_state = {.accumulate = true, .m = c->size, .n = CHUNK, .k = c->size, .lda = c->ld, .ldb = c->ld, .ldc = c->ld};
	kern_delta_product(c, by_state, b->s, c->scaled, b->added);
	kern_delta_solve_back(c, b->added, b->rest);
}

// The gradients of scores and reads before decays, and what both add to the gradients of decays.
static void kern_delta_back_scores(struct kern_delta_back *b, const struct kern_delta_chunk *c) {
	enum { CHUNK = KERN_DELTA_CHUNK };
	struct kern_gemm g = {.trans_a = true, .m = CHUNK, .n = CHUNK, .k = c->size, .lda = c->ld, .ldb = c->ld, .ldc = CHUNK};
	kern_delta_product(c, g, c->added, b->dy, b->scores);
	kern_delta_product(c, g, c->added, b->rest, b->reads);
	for (int64_t t = 0; t < CHUNK; t++) {
		int64_t column = t * CHUNK;
		for (int64_t j = 0; j < t; j++) {
			float x = b->scores[column + j] * c->scores[column + j] - b->reads[column + j] * c->reads[column + j];
			b->logs[j] -= x;
			b->logs[t] += x;
		}
	}
	kern_delta_decay(c, b->scores, 1);
	kern_delta_decay(c, b->reads, -1);
	kern_delta_clear_late(b->reads);
}

// Gradients by the state s before a chunk, and of it.
static void kern_delta_back_state(struct kern_delta_back *b, const struct kern_delta_chunk *c, const float *s) {
	int64_t ld = c->ld, matrix = ld * KERN_DELTA_CHUNK, last = c->n - 1;
	struct kern_gemm by_state = {.trans_a = true, .m = c->size, .n = KERN_DELTA_CHUNK, .k = c->size, .lda = ld, .ldb = ld, .ldc = ld};
	kern_delta_product(c, by_state, b->s, c->added, c->scaled);
	kern_delta_scale(c, b->k, c->scaled, c->to_end, 1);
	kern_delta_scale(c, b->seen, b->dy, c->from_state, 1);
	kern_delta_scale(c, b->seen + matrix, b->rest, c->from_state, -1);
	by_state.n = 2 * KERN_DELTA_CHUNK;
	kern_delta_product(c, by_state, s, b->seen, b->q);
	for (int64_t t = 0; t < c->n; t++) {
		float kept = kern_delta_dot(c->k + t * ld, b->k + t * ld, ld);
		b->logs[last] += kept;
		b->logs[t] += kern_delta_dot(c->q + t * ld, b->q + t * ld, ld) - kept;
		b->logs[t] += kern_delta_dot(c->read + t * ld, b->q + matrix + t * ld, ld);
	}
	if (c->from_state[last] != 0) {
		b->logs[last] += c->from_state[last] * kern_delta_dot(s, b->s, ld * c->size);
	}
	kern_delta_decay_state(c, b->s);
	struct kern_gemm add = {.trans_b = true, .accumulate = true, .m = c->size, .n = c->size, .k = KERN_DELTA_CHUNK, .lda = ld, .ldb = ld, .ldc = ld};
	kern_delta_product(c, add, b->seen, c->q, b->s);
	kern_delta_product(c, add, b->seen + matrix, c->read, b->s);
}

// The gradients of keys and queries by scores and reads.
static void kern_delta_back_keys(struct kern_delta_back *b, const struct kern_delta_chunk *c) {
	enum { CHUNK = KERN_DELTA_CHUNK };
	struct kern_gemm by_tokens = {.accumulate = true, .m = c->size, .n = CHUNK, .k = CHUNK, .lda = c->ld, .ldb = CHUNK, .ldc = c->ld};
	kern_delta_product(c, by_tokens, c->k, b->scores, b->q);
	kern_delta_product(c, by_tokens, c->k, b->reads, b->q + c->ld * CHUNK);
	by_tokens.trans_b = true;
	kern_delta_product(c, by_tokens, c->q, b->scores, b->k);
	kern_delta_product(c, by_tokens, c->read, b->reads, b->k);
}

// Writes the gradients of the tokens from one on.
static void kern_delta_write_grads(struct kern_delta_back *b, const struct kern_delta_chunk *c, const struct kern_delta_head *h,
		struct kern_delta_grads to, int64_t from) {
	float *read = b->q + c->ld * KERN_DELTA_CHUNK;
	if (to.read == NULL) {
		kern_delta_add(b->k, read, c->ld * KERN_DELTA_CHUNK);
	} else {
		kern_delta_scatter_add(c, to.read + from * to.read_stride, to.read_stride, read);
	}
	if (h->unit > 0) {
		kern_delta_unit_grad(c, b->q, c->q, c->q_inverse);
		kern_delta_unit_grad(c, b->k, c->k, c->k_inverse);
	}
	kern_delta_scatter_add(c, to.q + from * to.key_stride, to.key_stride, b->q);
	kern_delta_scatter_add(c, to.k + from * to.key_stride, to.key_stride, b->k);
	kern_delta_scatter(c, to.v + from * to.v_stride, to.v_stride, b->rest);
	double later = 0; // of the tokens from t on, in t's sample
	for (int64_t t = c->n - 1; t >= 0; t--) {
		int64_t number = (from + t) * h->number_stride;
		later = c->starts[t] ? 0 : later + b->logs[t]; // no decay reaches into a sample
		to.g[number] = (float)later;
		to.beta[number] = kern_delta_dot(b->added + t * c->ld, c->rest + t * c->ld, c->ld);
	}
}

void kern_delta_chunks_back(const struct kern_delta_head *h, struct kern_delta_grads to) {
	int64_t chunks = kern_ceil_div(h->n, KERN_DELTA_CHUNK), ld = kern_delta_ld(h->size), state = ld * h->size;
	struct kern_delta_arena a = kern_delta_arena(h, 2 * KERN_DELTA_SQUARE + 8 * ld * KERN_DELTA_CHUNK + 2 * state);
	struct kern_delta_chunk c = kern_delta_chunk(&a, h);
	struct kern_delta_back b = kern_delta_back_memory(&a, &c);
	float *s = kern_delta_take(&a, state), *states = kern_scratch(KERN_SCRATCH_COLUMNS, chunks * state * sizeof *states);
	memset(s, 0, state * sizeof *s);
	for (int64_t i = 0; i < chunks; i++) {
		memcpy(states + i * state, s, state * sizeof *s);
		if (i < chunks - 1) {
			kern_delta_read_chunk(&c, h, i * KERN_DELTA_CHUNK);
			kern_delta_correct(&c, s);
			kern_delta_advance(&c, s);
		}
	}
	memset(b.s, 0, state * sizeof *b.s);
	for (int64_t i = chunks - 1; i >= 0; i--) {
		int64_t from = i * KERN_DELTA_CHUNK;
		kern_delta_read_chunk(&c, h, from);
		kern_delta_correct(&c, states + i * state);
		kern_delta_score(&c, h, from);
		kern_delta_gather(&c, b.dy, h->dy + from * h->y_stride, h->y_stride);
		kern_delta_multiply(b.dy, 1 / sqrtf((float)c.size), ld * KERN_DELTA_CHUNK);
		memset(b.logs, 0, sizeof b.logs);
		kern_delta_back_added(&b, &c);
		kern_delta_back_scores(&b, &c);
		kern_delta_back_state(&b, &c, states + i * state);
		kern_delta_back_keys(&b, &c);
		kern_delta_write_grads(&b, &c, h, to, from);
	}
}
