// A chunk of tokens of the gated delta rule, which forward and backward pass share.
//
// Matrices are column-major, with a column for each token. F[j, t] is the product of exp(g_i) for j < i ≤ t, 0 if j belongs to
// an earlier sample; a_t is the decay from the state S before the chunk to token t. Then
//
//	rest_t  = v_t − a_t·S·read_t − Σ_{j<t} F[j, t]·(k_j·read_t)·added_j,  added_t = β_t·rest_t
//	y_t     = (a_t·S·q_t + Σ_{j≤t} F[j, t]·(k_j·q_t)·added_j) / √size
//	S after = a_end·S + Σ_j F[j, end]·added_j·k_jᵀ
//
// S is [values, keys]. All chunks have KERN_DELTA_CHUNK tokens: those behind the last one of a row are 0 and add nothing.
#ifndef KERN_DELTA_RULE_CHUNK_H
#define KERN_DELTA_RULE_CHUNK_H

#include "delta_rule_chunks.h"
#include "library.h"

enum { KERN_DELTA_CHUNK = 64, KERN_DELTA_SQUARE = KERN_DELTA_CHUNK * KERN_DELTA_CHUNK };

struct kern_delta_chunk {
	int64_t size, ld, n;     // n tokens; ld is size rounded up to whole panels of vectors
	float *q, *k, *read, *v; // [ld, tokens], as are rest, added and scaled
	float *rest, *added;
	float *scaled;   // for a moment
	float *decays;   // F [tokens, tokens], as are reads and scores
	float *reads;    // F[j, t]·(k_j·read_t) for j < t, else 0
	float *scores;   // F[j, t]·(k_j·q_t)
	uint16_t *a, *b; // operands of a product in BF16; NULL: products are in F32
	float beta[KERN_DELTA_CHUNK], from_state[KERN_DELTA_CHUNK], to_end[KERN_DELTA_CHUNK]; // decays a_t, and F[t, end]
	float q_inverse[KERN_DELTA_CHUNK], k_inverse[KERN_DELTA_CHUNK]; // 1/√(‖x‖² + unit)
	bool starts[KERN_DELTA_CHUNK];
};

// Consecutive parts of the thread's scratch memory.
struct kern_delta_arena {
	float *next;
};

float *kern_delta_take(struct kern_delta_arena *a, int64_t elements);
int64_t kern_delta_ld(int64_t size);
// Returns memory for a chunk of a head, and for more matrices of a number of elements; padding is 0.
struct kern_delta_arena kern_delta_arena(const struct kern_delta_head *h, int64_t more);
struct kern_delta_chunk kern_delta_chunk(struct kern_delta_arena *a, const struct kern_delta_head *h);

// Reads the tokens from one on, but for their queries.
void kern_delta_read_chunk(struct kern_delta_chunk *c, const struct kern_delta_head *h, int64_t from);
// Computes rest and added, given the state before the chunk.
void kern_delta_correct(struct kern_delta_chunk *c, const float *s);
// Reads the queries and computes the scores.
void kern_delta_score(struct kern_delta_chunk *c, const struct kern_delta_head *h, int64_t from);
// Moves the state from before the chunk to after it.
void kern_delta_advance(struct kern_delta_chunk *c, float *s);

// C [m, n] = A · B or C += A · B, in BF16 if the chunk has memory for it.
void kern_delta_product(const struct kern_delta_chunk *c, struct kern_gemm g, const float *a, const float *b, float *to);
// Copies columns from a matrix with a stride, and to one.
void kern_delta_gather(const struct kern_delta_chunk *c, float *to, const float *from, int64_t stride);
void kern_delta_scatter(const struct kern_delta_chunk *c, float *to, int64_t stride, const float *from);
void kern_delta_scatter_add(const struct kern_delta_chunk *c, float *to, int64_t stride, const float *from);
// x ← x + y and x ← x · factor, of a multiple of KERN_LANES elements.
void kern_delta_add(float *x, const float *y, int64_t n);
void kern_delta_multiply(float *x, float factor, int64_t n);
// y = x · factor · factors of the columns.
void kern_delta_scale(const struct kern_delta_chunk *c, float *y, const float *x, const float *factors, float factor);
// x ← x · F · factor, of [tokens, tokens].
void kern_delta_decay(const struct kern_delta_chunk *c, float *x, float factor);
// Sets the part j ≥ t of x [tokens, tokens] to 0.
void kern_delta_clear_late(float *x);
void kern_delta_decay_state(const struct kern_delta_chunk *c, float *s);
// d ← the gradient of x, given the gradient d of unit = x · inverse, for each token.
void kern_delta_unit_grad(const struct kern_delta_chunk *c, float *d, const float *unit, const float *inverse);
// Solves added_t ← added_t − Σ_{i>t} reads[t, i]·rest_i with rest_t = β_t·added_t, from the last token to the first.
void kern_delta_solve_back(const struct kern_delta_chunk *c, float *added, float *rest);
// Returns the dot product of n elements, a multiple of KERN_LANES.
float kern_delta_dot(const float *x, const float *y, int64_t n);

#endif
