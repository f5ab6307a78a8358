#include "delta_rule_chunk.h"
#include "elementwise.h"
#include "scratch.h"

#include <string.h>

enum { CHUNK = KERN_DELTA_CHUNK, LANES = KERN_LANES, PANEL = 4, ROWS = 4 }; // PANEL vectors of ROWS tokens stay in registers

// A smaller decay is 0: products with subnormal operands take many times as long.
#define KERN_DELTA_TINY 1e-28f

#define KERN_DELTA_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)

float *kern_delta_take(struct kern_delta_arena *a, int64_t elements) {
	float *part = a->next;
	a->next += elements;
	return part;
}

int64_t kern_delta_ld(int64_t size) { return kern_ceil_div(size, LANES * PANEL) * LANES * PANEL; }

struct kern_delta_arena kern_delta_arena(const struct kern_delta_head *h, int64_t more) {
	int64_t ld = kern_delta_ld(h->size), operands = ld * kern_max(h->size, 2 * CHUNK); // in BF16, two of them
	int64_t elements = 3 * KERN_DELTA_SQUARE + 7 * CHUNK * ld + operands + more;
	struct kern_delta_arena a = {kern_scratch(KERN_SCRATCH_TILE, elements * sizeof(float))};
	if (ld != h->size) {
		memset(a.next, 0, elements * sizeof(float));
	}
	return a;
}

struct kern_delta_chunk kern_delta_chunk(struct kern_delta_arena *a, const struct kern_delta_head *h) {
	struct kern_delta_chunk c = {.size = h->size, .ld = kern_delta_ld(h->size)};
	int64_t matrix = c.ld * CHUNK, operand = c.ld * kern_max(h->size, 2 * CHUNK) / 2;
	float **squares[] = {&c.decays, &c.reads, &c.scores}, **matrices[] = {&c.q, &c.k, &c.read, &c.v, &c.rest, &c.added, &c.scaled};
	for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
		*squares[i] = kern_delta_take(a, KERN_DELTA_SQUARE);
	}
	for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
		*matrices[i] = kern_delta_take(a, matrix);
	}
	if (h->bf16) {
		c.a = (uint16_t *)kern_delta_take(a, operand), c.b = (uint16_t *)kern_delta_take(a, operand);
	}
	return c;
}

void kern_delta_product(const struct kern_delta_chunk *c, struct kern_gemm g, const float *a, const float *b, float *to) {
	if (c->a == NULL) {
		kern_library_gemm(&g, a, b, to);
		return;
	}
	g.bf16 = true;
	kern_round_bf16(a, c->a, g.lda * (g.trans_a ? g.m : g.k));
	kern_round_bf16(b, c->b, g.ldb * (g.trans_b ? g.k : g.n));
	kern_library_gemm(&g, c->a, c->b, to);
}

void kern_delta_gather(const struct kern_delta_chunk *c, float *to, const float *from, int64_t stride) {
	for (int64_t t = 0; t < c->n; t++) {
		memcpy(to + t * c->ld, from + t * stride, c->size * sizeof *to);
	}
	memset(to + c->n * c->ld, 0, (CHUNK - c->n) * c->ld * sizeof *to);
}

void kern_delta_scatter(const struct kern_delta_chunk *c, float *to, int64_t stride, const float *from) {
	for (int64_t t = 0; t < c->n; t++) {
		memcpy(to + t * stride, from + t * c->ld, c->size * sizeof *to);
	}
}

KERN_CLONES static void kern_delta_add_columns(float *to, int64_t stride, const float *from, int64_t ld, int64_t size, int64_t n) {
	for (int64_t t = 0; t < n; t++, to += stride, from += ld) {
		int64_t i = 0;
		for (; i + LANES <= size; i += LANES) {
			*(kern_lanes_anywhere *)(to + i) += *(const kern_lanes *)(from + i);
		}
		for (; i < size; i++) {
			to[i] += from[i];
		}
	}
}

void kern_delta_scatter_add(const struct kern_delta_chunk *c, float *to, int64_t stride, const float *from) {
	kern_delta_add_columns(to, stride, from, c->ld, c->size, c->n);
}

KERN_CLONES static void kern_delta_plus(kern_lanes *x, const kern_lanes *y, int64_t vectors) {
	for (int64_t i = 0; i < vectors; i++) {
		x[i] += y[i];
	}
}

void kern_delta_add(float *x, const float *y, int64_t n) { kern_delta_plus((kern_lanes *)x, (const kern_lanes *)y, n / LANES); }

KERN_CLONES static void kern_delta_times(kern_lanes *y, const kern_lanes *x, float factor, int64_t vectors) {
	for (int64_t i = 0; i < vectors; i++) {
		y[i] = x[i] * factor;
	}
}

void kern_delta_multiply(float *x, float factor, int64_t n) { kern_delta_times((kern_lanes *)x, (const kern_lanes *)x, factor, n / LANES); }

void kern_delta_scale(const struct kern_delta_chunk *c, float *y, const float *x, const float *factors, float factor) {
	for (int64_t t = 0; t < CHUNK; t++) {
		kern_delta_times((kern_lanes *)(y + t * c->ld), (const kern_lanes *)(x + t * c->ld), factors[t] * factor, c->ld / LANES);
	}
}

KERN_CLONES static void kern_delta_multiply_by(kern_lanes *y, const kern_lanes *x, float factor, int64_t vectors) {
	for (int64_t i = 0; i < vectors; i++) {
		y[i] *= x[i] * factor;
	}
}

void kern_delta_decay(const struct kern_delta_chunk *c, float *x, float factor) {
	kern_delta_multiply_by((kern_lanes *)x, (const kern_lanes *)c->decays, factor, KERN_DELTA_SQUARE / LANES);
}

void kern_delta_clear_late(float *x) {
	for (int64_t t = 0; t < CHUNK; t++) {
		memset(x + t * CHUNK + t, 0, (CHUNK - t) * sizeof *x);
	}
}

void kern_delta_decay_state(const struct kern_delta_chunk *c, float *s) {
	float decay = c->from_state[c->n - 1];
	if (decay == 0) { // also if the state is not finite
		memset(s, 0, c->ld * c->size * sizeof *s);
	} else {
		kern_delta_multiply(s, decay, c->ld * c->size);
	}
}

__attribute__((always_inline)) static inline float kern_delta_flush(float x) { return x < KERN_DELTA_TINY ? 0 : x; }

// The decays of a token, computed from the decays of the token before it.
KERN_CLONES static void kern_delta_next_decays(float *column, float decay) {
	for (int j = 0; j < CHUNK; j++) {
		column[j] = kern_delta_flush(column[j - CHUNK] * decay);
	}
}

static void kern_delta_read_decays(struct kern_delta_chunk *c, const struct kern_delta_head *h, int64_t from) {
	float state = 1;
	memset(c->decays, 0, KERN_DELTA_SQUARE * sizeof *c->decays);
	memset(c->beta, 0, sizeof c->beta);
	memset(c->from_state, 0, sizeof c->from_state);
	for (int64_t t = 0; t < c->n; t++) {
		int64_t number = (from + t) * h->number_stride;
		c->beta[t] = h->beta[number];
		c->starts[t] = kern_delta_starts(h, from + t);
		float decay = c->starts[t] ? 0 : expf(h->g[number]), *column = c->decays + t * CHUNK;
		c->from_state[t] = state = kern_delta_flush(state * decay);
		if (t > 0) {
			kern_delta_next_decays(column, decay);
		}
		column[t] = 1;
	}
	memcpy(c->to_end, c->decays + (c->n - 1) * CHUNK, sizeof c->to_end);
}

// Divides tokens by √(‖x‖² + eps).
KERN_CLONES static void kern_delta_normalise(kern_lanes *x, float *inverse, float eps, int64_t vectors) {
	for (int64_t t = 0; t < CHUNK; t++, x += vectors) {
		kern_lanes sum = {0};
		for (int64_t i = 0; i < vectors; i++) {
			sum += x[i] * x[i];
		}
		inverse[t] = 1 / sqrtf(kern_sum_lanes(&sum) + eps);
		for (int64_t i = 0; i < vectors; i++) {
			x[i] *= inverse[t];
		}
	}
}

KERN_CLONES static void kern_delta_unit_grad_lanes(kern_lanes *d, const kern_lanes *unit, const float *inverse, int64_t vectors) {
	for (int64_t t = 0; t < CHUNK; t++, d += vectors, unit += vectors) {
		kern_lanes sum = {0};
		for (int64_t i = 0; i < vectors; i++) {
			sum += d[i] * unit[i];
		}
		float along = kern_sum_lanes(&sum);
		for (int64_t i = 0; i < vectors; i++) {
			d[i] = (d[i] - unit[i] * along) * inverse[t];
		}
	}
}

void kern_delta_unit_grad(const struct kern_delta_chunk *c, float *d, const float *unit, const float *inverse) {
	kern_delta_unit_grad_lanes((kern_lanes *)d, (const kern_lanes *)unit, inverse, c->ld / LANES);
}

// Reads queries or keys.
static void kern_delta_gather_keys(const struct kern_delta_chunk *c, const struct kern_delta_head *h, float *to, float *inverse, const float *from, int64_t stride) {
	kern_delta_gather(c, to, from, stride);
	if (h->unit > 0) {
		kern_delta_normalise((kern_lanes *)to, inverse, h->unit, c->ld / LANES);
	}
}

void kern_delta_read_chunk(struct kern_delta_chunk *c, const struct kern_delta_head *h, int64_t from) {
	c->n = kern_min(h->n - from, CHUNK);
	kern_delta_gather_keys(c, h, c->k, c->k_inverse, h->k + from * h->k_stride, h->k_stride);
	kern_delta_gather(c, c->v, h->v + from * h->v_stride, h->v_stride);
	if (h->read == h->k) {
		c->read = c->k;
	} else {
		kern_delta_gather(c, c->read, h->read + from * h->read_stride, h->read_stride);
	}
	kern_delta_read_decays(c, h, from);
}

KERN_CLONES static void kern_delta_subtract_seen(kern_lanes *rest, const kern_lanes *v, const float *decays, int64_t vectors) {
	for (int64_t t = 0; t < CHUNK; t++, rest += vectors, v += vectors) {
		for (int64_t i = 0; i < vectors; i++) {
			rest[i] = v[i] - rest[i] * decays[t];
		}
	}
}

// Solves rest_t ← rest_t − Σ_{j<t} reads[j, t]·added_j with added_t = β_t·rest_t: four tokens and a panel at a time, whose
// vectors stay in registers.
KERN_CLONES static void kern_delta_solve(kern_lanes *added, kern_lanes *rest, const float *reads, const float *beta, int64_t vectors) {
	for (int64_t first = 0; first < vectors; first += PANEL) {
		for (int64_t t = 0; t < CHUNK; t += ROWS) {
			kern_lanes x[ROWS][PANEL];
			KERN_DELTA_EACH(i) KERN_DELTA_EACH(l) x[i][l] = rest[(t + i) * vectors + first + l];
			for (int64_t j = 0; j < t; j++) {
				const kern_lanes *u = added + j * vectors + first;
				KERN_DELTA_EACH(i) {
					float f = reads[(t + i) * CHUNK + j];
					KERN_DELTA_EACH(l) x[i][l] -= u[l] * f;
				}
			}
			KERN_DELTA_EACH(i) {
				for (int j = 0; j < i; j++) {
					float f = reads[(t + i) * CHUNK + t + j] * beta[t + j];
					KERN_DELTA_EACH(l) x[i][l] -= x[j][l] * f;
				}
				KERN_DELTA_EACH(l) {
					rest[(t + i) * vectors + first + l] = x[i][l];
					added[(t + i) * vectors + first + l] = x[i][l] * beta[t + i];
				}
			}
		}
	}
}

KERN_CLONES static void kern_delta_solve_back_lanes(kern_lanes *added, kern_lanes *rest, const float *reads, const float *beta, int64_t vectors) {
	for (int64_t first = 0; first < vectors; first += PANEL) {
		for (int64_t t = CHUNK - ROWS; t >= 0; t -= ROWS) {
			kern_lanes x[ROWS][PANEL];
			KERN_DELTA_EACH(i) KERN_DELTA_EACH(l) x[i][l] = added[(t + i) * vectors + first + l];
			for (int64_t j = t + ROWS; j < CHUNK; j++) {
				const kern_lanes *r = rest + j * vectors + first;
				KERN_DELTA_EACH(i) {
					float f = reads[j * CHUNK + t + i];
					KERN_DELTA_EACH(l) x[i][l] -= r[l] * f;
				}
			}
			for (int i = ROWS - 1; i >= 0; i--) {
				for (int j = i + 1; j < ROWS; j++) {
					float f = reads[(t + j) * CHUNK + t + i] * beta[t + j];
					KERN_DELTA_EACH(l) x[i][l] -= x[j][l] * f;
				}
				KERN_DELTA_EACH(l) {
					added[(t + i) * vectors + first + l] = x[i][l];
					rest[(t + i) * vectors + first + l] = x[i][l] * beta[t + i];
				}
			}
		}
	}
}

void kern_delta_solve_back(const struct kern_delta_chunk *c, float *added, float *rest) {
	kern_delta_solve_back_lanes((kern_lanes *)added, (kern_lanes *)rest, c->reads, c->beta, c->ld / LANES);
}

KERN_CLONES static float kern_delta_dot_lanes(const kern_lanes *x, const kern_lanes *y, int64_t vectors) {
	kern_lanes sum = {0};
	for (int64_t i = 0; i < vectors; i++) {
		sum += x[i] * y[i];
	}
	return kern_sum_lanes(&sum);
}

float kern_delta_dot(const float *x, const float *y, int64_t n) { return kern_delta_dot_lanes((const kern_lanes *)x, (const kern_lanes *)y, n / LANES); }

void kern_delta_correct(struct kern_delta_chunk *c, const float *s) {
	struct kern_gemm reads = {.trans_a = true, .m = CHUNK, .n = CHUNK, .k = c->size, .lda = c->ld, .ldb = c->ld, .ldc = CHUNK};
	kern_delta_product(c, reads, c->k, c->read, c->reads);
	kern_delta_decay(c, c->reads, 1);
	kern_delta_clear_late(c->reads);
	struct kern_gemm seen = {.m = c->size, .n = CHUNK, .k = c->size, .lda = c->ld, .ldb = c->ld, .ldc = c->ld};
	kern_delta_product(c, seen, s, c->read, c->rest);
	kern_delta_subtract_seen((kern_lanes *)c->rest, (const kern_lanes *)c->v, c->from_state, c->ld / LANES);
	kern_delta_solve((kern_lanes *)c->added, (kern_lanes *)c->rest, c->reads, c->beta, c->ld / LANES);
}

void kern_delta_score(struct kern_delta_chunk *c, const struct kern_delta_head *h, int64_t from) {
	kern_delta_gather_keys(c, h, c->q, c->q_inverse, h->q + from * h->q_stride, h->q_stride);
	struct kern_gemm scores = {.trans_a = true, .m = CHUNK, .n = CHUNK, .k = c->size, .lda = c->ld, .ldb = c->ld, .ldc = CHUNK};
	kern_delta_product(c, scores, c->k, c->q, c->scores);
	kern_delta_decay(c, c->scores, 1);
}

void kern_delta_advance(struct kern_delta_chunk *c, float *s) {
	kern_delta_scale(c, c->scaled, c->added, c->to_end, 1);
	kern_delta_decay_state(c, s);
	struct kern_gemm add = {.trans_b = true, .accumulate = true, .m = c->size, .n = c->size, .k = CHUNK, .lda = c->ld, .ldb = c->ld, .ldc = c->ld};
	kern_delta_product(c, add, c->scaled, c->k, s);
}
