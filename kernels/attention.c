#include "attention.h"
#include "chunks.h"
#include "library.h"
#include "scratch.h"
#include "softmax.h"
#include "vector.h"

#include <string.h>

// Queries per block. In a large block, more queries share a GEMM with earlier keys; a small block
// computes fewer masked scores.
enum { KERN_QUERIES = 64, KERN_QUERIES_LONG = 128, KERN_LONG = 1024 };

static int64_t kern_block_size(const struct ggml_tensor *q) { return q->ne[2] > KERN_LONG ? KERN_QUERIES_LONG : KERN_QUERIES; }

// The operands of an op, and one of its heads.
struct kern_operands {
	const struct ggml_tensor *q, *k, *v, *sinks; // the last may be NULL
	struct kern_bounds bounds;
	struct kern_attention_params params;
	int64_t head, sample;
};

// Returns the operands of an op; q is the operand index of the queries.
static struct kern_operands kern_operands_of(const struct ggml_tensor *dst, int q) {
	struct kern_operands o = {.q = dst->src[q], .k = dst->src[q + 1], .v = dst->src[q + 2]};
	memcpy(&o.params, kern_params(dst), sizeof o.params);
	o.bounds = kern_bounds_of(dst, o.params.first_visible, o.params.hidden);
	o.sinks = kern_optional(dst, o.params.sinks);
	return o;
}

// A block: the queries [from, to) of a head, and the keys [low, gap_from) and [gap_to, to): no query of the block sees
// another key. Its scores are [keys, to − from], first the keys of one range, then of the other.
struct kern_block {
	int64_t size, from, to, low, gap_from, gap_to, ld_scores, sample;
	float scale, softcap;
	struct kern_scores scores; // settings after the softcap, if any
	struct kern_bounds bounds;
	struct kern_head q, k, v; // the queries of the block, and all keys
};

static int64_t kern_queries(const struct kern_block *b) { return b->to - b->from; }

// Returns the index of a key among the block's; for a key in the gap, the next one's.
static int64_t kern_key_index(const struct kern_block *b, int64_t key) {
	return (key < b->gap_to ? kern_min(key, b->gap_from) : key - (b->gap_to - b->gap_from)) - b->low;
}

static int64_t kern_keys(const struct kern_block *b) { return kern_key_index(b, b->to); }

// Sets the keys of a block: those before the first visible key of all queries cost nothing, nor
// those that all queries skip, as the answers to one prompt skip each other.
static void kern_find_keys(struct kern_block *b) {
	int64_t low = b->from, gap_from = 0, gap_to = b->from;
	for (int64_t i = b->from; i < b->to; i++) {
		struct kern_visible v = kern_visible_to(&b->bounds, i, b->sample);
		low = kern_min(low, v.from);
		if (v.from < b->from) { // else it sees no key before the block
			gap_from = kern_max(gap_from, v.hidden_from);
			gap_to = kern_min(gap_to, v.hidden_to);
		}
	}
	b->low = low;
	b->gap_from = gap_from < gap_to ? kern_max(gap_from, low) : b->from;
	b->gap_to = kern_max(b->gap_from, gap_to);
}

static struct kern_block kern_block_of(const struct kern_operands *o, int64_t i) {
	int64_t from = i * kern_block_size(o->q), to = kern_min(o->q->ne[2], from + kern_block_size(o->q));
	int64_t heads = o->q->ne[1], group = o->head / (heads / o->k->ne[1]);
	float scale = o->params.scale, softcap = o->params.softcap;
	struct kern_block b = {
		.size = o->q->ne[0], .from = from, .to = to, .sample = o->sample, .scale = scale, .softcap = softcap, .bounds = o->bounds,
		.scores = kern_scores_of(softcap == 0 ? scale : softcap, o->params.max_bias, o->sinks, o->head, heads),
		.q = kern_head_from(kern_head_of(o->q, o->head, o->sample), from),
		.k = kern_head_of(o->k, group, o->sample), .v = kern_head_of(o->v, group, o->sample),
	};
	kern_find_keys(&b);
	b.ld_scores = kern_ceil_div(kern_keys(&b), KERN_SOFTMAX_STEP) * KERN_SOFTMAX_STEP + KERN_LD_PADDING / sizeof(float);
	return b;
}

static float *kern_block_scratch(const struct kern_block *b, enum kern_scratch_use use) {
	return kern_scratch(use, kern_queries(b) * b->ld_scores * sizeof(float));
}

// A range of a block's keys, and the index of the first among them.
struct kern_key_range {
	int64_t from, to, index;
};

// Returns the ranges of a block's keys that are not empty, and their number.
static int kern_key_ranges(const struct kern_block *b, struct kern_key_range ranges[2]) {
	if (b->gap_from == b->gap_to) {
		ranges[0] = (struct kern_key_range){b->low, b->to, 0};
		return 1;
	}
	int n = 0;
	if (b->low < b->gap_from) {
		ranges[n++] = (struct kern_key_range){b->low, b->gap_from, 0};
	}
	ranges[n++] = (struct kern_key_range){b->gap_to, b->to, b->gap_from - b->low};
	return n;
}

// scores = Yᵀ·X, where Y is the head's vectors of keys and X the block's vectors of queries.
static void kern_qk_scores(const struct kern_block *b, struct kern_head x, struct kern_head y, float *scores) {
	struct kern_key_range ranges[2];
	for (int i = 0, n = kern_key_ranges(b, ranges); i < n; i++) {
		struct kern_gemm g = {
			.trans_a = true, .m = ranges[i].to - ranges[i].from, .n = kern_queries(b), .k = b->size, .lda = y.ld, .ldb = x.ld, .ldc = b->ld_scores,
		};
		kern_library_gemm(&g, kern_vector(y, ranges[i].from), x.data, scores + ranges[i].index);
	}
}

// Y = X·scores, where X is the head's vectors of keys and Y the block's vectors of queries.
static void kern_gemm_nn(const struct kern_block *b, const float *scores, struct kern_head x, struct kern_head y) {
	struct kern_key_range ranges[2];
	for (int i = 0, n = kern_key_ranges(b, ranges); i < n; i++) {
		struct kern_gemm g = {
			.accumulate = i > 0, .m = b->size, .n = kern_queries(b), .k = ranges[i].to - ranges[i].from, .lda = x.ld, .ldb = b->ld_scores, .ldc = y.ld,
		};
		kern_library_gemm(&g, kern_vector(x, ranges[i].from), scores + ranges[i].index, y.data);
	}
}

// Y += X·scoresᵀ, where X is the block's vectors of queries and Y the head's vectors of keys.
static void kern_gemm_nt_accumulate(const struct kern_block *b, const float *scores, struct kern_head x, struct kern_head y) {
	struct kern_key_range ranges[2];
	for (int i = 0, n = kern_key_ranges(b, ranges); i < n; i++) {
		struct kern_gemm g = {
			.trans_b = true, .accumulate = true,
			.m = b->size, .n = ranges[i].to - ranges[i].from, .k = kern_queries(b), .lda = x.ld, .ldb = b->ld_scores, .ldc = y.ld,
		};
		kern_library_gemm(&g, x.data, scores + ranges[i].index, kern_vector(y, ranges[i].from));
	}
}

// Returns the keys that a query sees, as indices among the block's.
static struct kern_visible kern_visible_in(const struct kern_block *b, int64_t query) {
	struct kern_visible v = kern_visible_to(&b->bounds, query, b->sample);
	return (struct kern_visible){
		kern_key_index(b, v.from), kern_key_index(b, v.to), kern_key_index(b, v.hidden_from), kern_key_index(b, v.hidden_to),
	};
}

// Gradient of tanh with result t, without the factor, for as many elements.
KERN_CLONES static void kern_bend_grad_row(float *restrict d, const float *restrict t, int64_t n) {
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			d[j + i] *= 1.0f - t[j + i] * t[j + i];
		}
	}
}

// The weights of a block, with other inputs of its gradients: the capped scores, between −1 and 1,
// and the weight of the sink for each query.
struct kern_weights {
	float *keys, *bent, sink[KERN_QUERIES_LONG];
};

// Sets the scores of a row that the query does not see to 0.
static void kern_clear_hidden(float *row, struct kern_visible v, int64_t size) {
	memset(row, 0, v.from * sizeof *row);
	memset(row + v.hidden_from, 0, (v.hidden_to - v.hidden_from) * sizeof *row);
	memset(row + v.to, 0, (size - v.to) * sizeof *row);
}

static void kern_softmax_qk(const struct kern_block *b, struct kern_weights *w) {
	w->keys = kern_block_scratch(b, KERN_SCRATCH_TILE);
	kern_qk_scores(b, b->q, b->k, w->keys);
	for (int64_t i = b->from; i < b->to; i++) {
		struct kern_visible v = kern_visible_in(b, i);
		float *row = w->keys + (i - b->from) * b->ld_scores;
		if (b->softcap != 0) {
			int64_t start = kern_softmax_start(v.from);
			kern_bend_row(row + start, v.to - start, b->scale / b->softcap);
		}
		if (w->bent != NULL) {
			float *bent = w->bent + (row - w->keys);
			memcpy(bent + v.from, row + v.from, (v.to - v.from) * sizeof *row);
			kern_clear_hidden(bent, v, b->ld_scores);
		}
		w->sink[i - b->from] = kern_softmax(row, v, b->ld_scores, b->scores);
	}
}

// Turns the gradient of n weights into the gradient of their scores, in place, followed by zeros up to a multiple
// of KERN_SOFTMAX_STEP. Returns the weighted mean of the gradients of weights.
KERN_CLONES static float kern_softmax_grad_row(float *restrict d, const float *restrict weights, int64_t n, float scale) {
	float sum[KERN_SOFTMAX_STEP] = {0};
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			sum[i] += d[j + i] * weights[j + i];
		}
	}
	float mean = kern_softmax_sum(sum);
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			d[j + i] = (d[j + i] - mean) * weights[j + i] * scale;
		}
	}
	return mean;
}

// Returns the gradient of the sink, whose own output is 0.
static float kern_softmax_grad(const struct kern_block *b, float *d, const struct kern_weights *w) {
	double sink = 0;
	for (int64_t i = b->from; i < b->to; i++) {
		struct kern_visible v = kern_visible_in(b, i);
		int64_t row = (i - b->from) * b->ld_scores, start = row + kern_softmax_start(v.from), n = row + v.to - start;
		kern_clear_hidden(d + row, v, b->ld_scores);
		sink -= (double)w->sink[i - b->from] * kern_softmax_grad_row(d + start, w->keys + start, n, b->scale);
		if (w->bent != NULL) {
			kern_bend_grad_row(d + start, w->bent + start, n);
		}
	}
	return (float)sink;
}

KERN_OP(causal_attention) {
	(void)ith, (void)userdata;
	struct kern_operands o = kern_operands_of(dst, 0);
	int64_t heads = o.q->ne[1], all = heads * o.q->ne[3], blocks = kern_ceil_div(o.q->ne[2], kern_block_size(o.q));
	for (int64_t j; (j = kern_next_chunk(dst, blocks * all, nth)) >= 0;) {
		o.head = j % heads, o.sample = j % all / heads;
		// Later blocks see more keys and take longer, so they come first.
		struct kern_block b = kern_block_of(&o, blocks - 1 - j / all);
		struct kern_weights w = {0};
		kern_softmax_qk(&b, &w);
		kern_gemm_nn(&b, w.keys, b.v, kern_head_from(kern_head_of(dst, o.head, o.sample), b.from));
	}
}

// Adds a block's contribution to the gradients of a head, and returns its contribution to the
// sink's gradient.
static float kern_block_grad(const struct kern_block *b, struct kern_head dy, struct kern_head dq, struct kern_head dk, struct kern_head dv) {
	struct kern_weights w = {.bent = b->softcap == 0 ? NULL : kern_block_scratch(b, KERN_SCRATCH_BENT)};
	kern_softmax_qk(b, &w);
	float *d = kern_block_scratch(b, KERN_SCRATCH_ACCUMULATOR);
	dy = kern_head_from(dy, b->from);
	kern_gemm_nt_accumulate(b, w.keys, dy, dv);
	kern_qk_scores(b, dy, b->v, d);
	float sink = kern_softmax_grad(b, d, &w);
	kern_gemm_nn(b, d, b->k, kern_head_from(dq, b->from));
	kern_gemm_nt_accumulate(b, d, b->q, dk);
	return sink;
}

// A chunk is the heads of a part, whose gradients of k and v are summed.
KERN_OP(causal_attention_grad) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *dy = dst->src[0];
	struct kern_operands o = kern_operands_of(dst, 1);
	int64_t size = o.q->ne[0], heads = o.q->ne[1], n = o.q->ne[2], batch = o.q->ne[3], groups = o.k->ne[1], parts = o.params.parts;
	int64_t all = groups * parts, each = heads / all, keys = size * groups * n * batch;
	float *sinks = (float *)dst->data + size * heads * n * batch + 2 * parts * keys;
	for (int64_t j; (j = kern_next_chunk(dst, all * batch, nth)) >= 0;) {
		o.sample = j / all;
		int64_t group = j % all / parts, part = j % parts, first = j % all * each;
		float *dq = (float *)dst->data + o.sample * size * heads * n;
		float *dk = (float *)dst->data + size * heads * n * batch + part * keys + o.sample * size * groups * n + group * size;
		struct kern_head dks = {dk, size * groups}, dvs = {dk + parts * keys, size * groups};
		float *dsinks = sinks + o.sample * heads;
		for (int64_t i = 0; i < n; i++) {
			memset(kern_vector(dks, i), 0, size * sizeof *dk);
			memset(kern_vector(dvs, i), 0, size * sizeof *dk);
		}
		memset(dsinks + first, 0, each * sizeof *dsinks);
		for (int64_t i = 0; i < kern_ceil_div(n, kern_block_size(o.q)) * each; i++) {
			o.head = first + i % each;
			struct kern_block b = kern_block_of(&o, i / each);
			struct kern_head dqs = {dq + o.head * size, size * heads};
			dsinks[o.head] += kern_block_grad(&b, kern_head_of(dy, o.head, o.sample), dqs, dks, dvs);
		}
	}
}
