// The parts of attention in BF16 that forward and backward share: operands packed for products, panels of queries, and
// what a tile of keys contributes.
#ifndef KERN_ATTENTION_BF16_TILE_H
#define KERN_ATTENTION_BF16_TILE_H

#include "attention_bf16.h"
#include "softmax.h"

#include <math.h>
#include <string.h>

// A block of queries is made of panels, whose queries are the lanes of vectors. A tile is a number of keys.
enum { KERN_VECTOR = 16, KERN_PANEL = 64, KERN_PANELS = 2, KERN_BLOCK_QUERIES = KERN_PANEL * KERN_PANELS, KERN_TILE_KEYS = 64 };

// The operands of an op, the sizes of packed vectors, and the settings of a head's scores in binary logarithms.
struct kern_task {
	const struct ggml_tensor *q, *k, *v, *sinks;
	struct kern_bounds bounds;
	struct kern_attention_params params;
	int64_t size, heads, n, pairs, lanes; // pairs and lanes of a vector, rounded up to whole registers
	int64_t head, sample;
	float factor, bend, slope, sink; // bend is 0 without a softcap
};

// The operands of dst from number q on; then the scores of a head.
struct kern_task kern_task_of(const struct ggml_tensor *dst, int q);
void kern_set_head(struct kern_task *t, int64_t head);

static inline int64_t kern_group(const struct kern_task *t) { return t->head / (t->heads / t->k->ne[1]); }

// Consecutive parts of a thread's scratch memory.
struct kern_arena {
	char *next;
};

static inline void *kern_take(struct kern_arena *a, int64_t elements) {
	void *part = a->next;
	a->next += elements * 4; // pairs in BF16, or F32; all are multiples of a register
	return part;
}

// Rounds the vectors [from, from + rows) as they are, with zeros around them: to is [pairs, rows], and rows from n on are 0.
void kern_pack_vectors(const struct kern_task *t, struct kern_head x, int64_t from, int64_t rows, uint32_t *to);
// Rounds the vectors times a factor, two of them in turn: to is pairs of vectors [lanes, rows / 2].
void kern_pack_pairs(const struct kern_task *t, struct kern_head x, int64_t from, int64_t rows, float factor, uint32_t *to);
// Rounds the vectors of a tile, element by element: to is pairs of keys [KERN_TILE_KEYS / 2, lanes], and so is the scratch.
void kern_pack_tile(const struct kern_task *t, struct kern_head x, int64_t tile, uint32_t *pairs, uint32_t *to);
// Rounds the vectors of a panel as lanes: to is pairs of elements [KERN_PANEL, pairs].
void kern_pack_lanes(const struct kern_task *t, struct kern_head x, int64_t from, uint32_t *rows, uint32_t *to);

// A panel: KERN_PANEL queries from one on, or fewer at the end, and what is computed of them.
struct kern_panel {
	int64_t from, to;
	int32_t first[KERN_PANEL], hidden_from[KERN_PANEL], hidden_to[KERN_PANEL];
	int64_t least_first, most_first; // of all queries
	int64_t gap_from, gap_to;        // keys that all of them skip
	int64_t least_hidden, most_hidden; // range of the keys that any of them skips; empty if none does
	float top[KERN_PANEL], sum[KERN_PANEL], mean[KERN_PANEL]; // binary logarithms; the mean is of the gradients of weights
	uint32_t *q, *q_pairs, *dy, *dy_pairs;
	float *result; // [KERN_PANEL, size]: of the forward pass, or the gradient of q
};

// Returns the number of panels of a block that begins at a query, and begins them.
int kern_begin_block(struct kern_panel *p, const struct kern_task *t, int64_t from);
// Reports whether any query of a panel sees a key of the tile that begins at a key.
bool kern_sees_some(const struct kern_panel *p, int64_t key);

// Products of a panel: the lanes of A are its queries.
void kern_scores_of_tile(const struct kern_task *t, const uint32_t *queries, const uint32_t *keys, float *scores);
void kern_add_result(const struct kern_task *t, struct kern_panel *p, const uint32_t *weights, const uint32_t *elements);
// Adds to the gradients of a tile's keys [size, keys] what the queries of a panel contribute.
void kern_add_keys(const struct kern_task *t, const uint32_t *vectors, const uint16_t *weights, int64_t tile, float *to, int64_t ld);

// Turns the products [KERN_PANEL, keys] of a tile into weights, as pairs of keys [KERN_PANEL, keys / 2], relative to the
// largest score so far of each query, and scales the sums and the result of earlier tiles likewise.
void kern_weigh_tile(const struct kern_task *t, struct kern_panel *p, int64_t tile, float *x, uint32_t *weights);

// The weights of a tile and the gradients of its scores without the scale, by key, [KERN_PANEL, keys] in BF16; and the
// gradients as pairs of keys too.
struct kern_tile_grads {
	uint16_t *weights, *scores;
	uint32_t *pairs;
};

// Computes them of the products of queries and keys, and of gradients and values, [KERN_PANEL, keys].
void kern_weigh_tile_grads(const struct kern_task *t, const struct kern_panel *p, int64_t tile, const float *x, const float *dx, const struct kern_tile_grads *g);

// Writes the results of a panel, times a factor for each query, as vectors [size, queries].
void kern_write_panel(const struct kern_task *t, struct kern_panel *p, const float *factors, float *rows, float *to, int64_t ld);
// The dot product of x, rounded to BF16, and y.
float kern_dot(const float *x, const float *y, int64_t n);

#endif
