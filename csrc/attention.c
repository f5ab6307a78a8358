//go:build ignore

#include "attention.h"
#include "softmax.h"
#include "tasks.h"

#include <string.h>

// Queries at a time. Many share what a product does to the keys before it; few see fewer keys for nothing.
enum { QUERIES = 64, LONG_QUERIES = 128, LONG = 1024 };

static int64_t goggml_queries(const struct ggml_tensor *q) { return q->ne[2] > LONG ? LONG_QUERIES : QUERIES; }

struct goggml_attention {
	float scale;
	int32_t parts;
};

// The vectors of a head, a row for each token.
struct goggml_head {
	float *rows;
	int64_t stride;
};

static struct goggml_head goggml_head_of(const struct ggml_tensor *t, int64_t head, int64_t sample) {
	int64_t stride = t->ne[2] > 1 ? t->nb[2] / sizeof(float) : t->ne[0];
	return (struct goggml_head){(float *)((char *)t->data + head * t->nb[1] + sample * t->nb[3]), stride};
}

// A block: the queries [from, to) of a head, which see the keys up to to.
struct goggml_block {
	int64_t size, from, to, row; // row is the distance between rows of scores
	float scale;
	struct goggml_head q, k, v;
};

static struct goggml_block goggml_block_of(const struct ggml_tensor *q, const struct ggml_tensor *k, const struct ggml_tensor *v,
		float scale, int64_t head, int64_t sample, int64_t i) {
	int64_t from = i * goggml_queries(q), to = goggml_min(q->ne[2], from + goggml_queries(q)), group = head / (q->ne[1] / k->ne[1]);
	return (struct goggml_block){
		.size = q->ne[0], .from = from, .to = to, .scale = scale,
		.row = goggml_cuts(to, SOFTMAX_STEP) * SOFTMAX_STEP + APART / sizeof(float),
		.q = goggml_head_of(q, head, sample), .k = goggml_head_of(k, group, sample), .v = goggml_head_of(v, group, sample),
	};
}

static float *goggml_scores(const struct goggml_block *b, enum goggml_use use) {
	return goggml_scratch(use, (b->to - b->from) * b->row * sizeof(float));
}

static float *goggml_row(struct goggml_head h, int64_t i) { return h.rows + i * h.stride; }

// scores = x · yᵀ, for the block's rows of x and all keys' rows of y.
static void goggml_score(const struct goggml_block *b, struct goggml_head x, struct goggml_head y, float *scores) {
	struct goggml_gemm g = {
		.trans_b = true, .n = b->to - b->from, .o = b->to, .r = b->size, .lda = x.stride, .ldb = y.stride, .ldo = b->row,
	};
	goggml_multiply(&g, goggml_row(x, b->from), y.rows, scores);
}

// The block's rows of out = scores · x, for all keys' rows of x.
static void goggml_gather(const struct goggml_block *b, const float *scores, struct goggml_head x, struct goggml_head out) {
	struct goggml_gemm g = {
		.n = b->to - b->from, .o = b->size, .r = b->to, .lda = b->row, .ldb = x.stride, .ldo = out.stride,
	};
	goggml_multiply(&g, scores, x.rows, goggml_row(out, b->from));
}

// All keys' rows of out += scoresᵀ · x, for the block's rows of x.
static void goggml_spread(const struct goggml_block *b, const float *scores, struct goggml_head x, struct goggml_head out) {
	struct goggml_gemm g = {
		.trans_a = true, .add = true, .n = b->to, .o = b->size, .r = b->to - b->from, .lda = b->row, .ldb = x.stride, .ldo = out.stride,
	};
	goggml_multiply(&g, scores, goggml_row(x, b->from), out.rows);
}

static float *goggml_weigh(const struct goggml_block *b) {
	float *weights = goggml_scores(b, GOGGML_TILE);
	goggml_score(b, b->q, b->k, weights);
	for (int64_t i = b->from; i < b->to; i++) {
		goggml_soft_max_head(weights + (i - b->from) * b->row, i + 1, b->row, b->scale);
	}
	return weights;
}

// The gradient of scores from that of weights, in place: of n elements, and zeros behind them up to a multiple of
// SOFTMAX_STEP.
GOGGML_CLONES static void goggml_soft_max_back_row(float *restrict d, const float *restrict weights, int64_t n, float scale) {
	float sum[SOFTMAX_STEP] = {0};
	for (int64_t j = 0; j < n; j += SOFTMAX_STEP) {
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			sum[i] += d[j + i] * weights[j + i];
		}
	}
	float mean = goggml_sum_of(sum);
	for (int64_t j = 0; j < n; j += SOFTMAX_STEP) {
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			d[j + i] = (d[j + i] - mean) * weights[j + i] * scale;
		}
	}
}

static void goggml_weigh_back(const struct goggml_block *b, float *d, const float *weights) {
	for (int64_t i = b->from; i < b->to; i++) {
		float *row = d + (i - b->from) * b->row;
		memset(row + i + 1, 0, (b->row - i - 1) * sizeof *row);
		goggml_soft_max_back_row(row, weights + (i - b->from) * b->row, i + 1, b->scale);
	}
}

static struct goggml_attention goggml_attention_of(const struct ggml_tensor *dst) {
	struct goggml_attention a;
	memcpy(&a, dst->op_params + CUSTOM_PARAMS, sizeof a);
	return a;
}

static void goggml_causal_attention(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	const struct ggml_tensor *q = dst->src[0];
	float scale = goggml_attention_of(dst).scale;
	int64_t heads = q->ne[1], all = heads * q->ne[3], blocks = goggml_cuts(q->ne[2], goggml_queries(q));
	for (int64_t j; (j = goggml_next_task(dst, blocks * all, workers)) >= 0;) {
		int64_t head = j % heads, sample = j % all / heads;
		// Later blocks see more keys, and take longer: they come first.
		struct goggml_block b = goggml_block_of(q, dst->src[1], dst->src[2], scale, head, sample, blocks - 1 - j / all);
		goggml_gather(&b, goggml_weigh(&b), b.v, goggml_head_of(dst, head, sample));
	}
}

// Adds a block's part to the gradients.
static void goggml_block_back(const struct goggml_block *b, struct goggml_head dy, struct goggml_head dq, struct goggml_head dk, struct goggml_head dv) {
	float *weights = goggml_weigh(b), *d = goggml_scores(b, GOGGML_SUM);
	goggml_spread(b, weights, dy, dv);
	goggml_score(b, dy, b->v, d);
	goggml_weigh_back(b, d, weights);
	goggml_gather(b, d, b->k, dq);
	goggml_spread(b, d, b->q, dk);
}

// A task is the heads of a part, whose gradients of k and v add up.
static void goggml_causal_attention_back(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data, (void)worker;
	const struct ggml_tensor *dy = dst->src[0], *q = dst->src[1], *k = dst->src[2], *v = dst->src[3];
	struct goggml_attention a = goggml_attention_of(dst);
	int64_t size = q->ne[0], n = q->ne[2], heads = q->ne[1], groups = k->ne[1];
	int64_t all = groups * a.parts, each = heads / all, keys = size * groups * n * q->ne[3];
	for (int64_t j; (j = goggml_next_task(dst, all * q->ne[3], workers)) >= 0;) {
		int64_t sample = j / all, group = j % all / a.parts, part = j % a.parts, first = j % all * each;
		float *dq = (float *)dst->data + sample * size * heads * n;
		float *dk = (float *)dst->data + size * heads * n * q->ne[3] + part * keys + sample * size * groups * n + group * size;
		struct goggml_head dks = {dk, size * groups}, dvs = {dk + a.parts * keys, size * groups};
		for (int64_t i = 0; i < n; i++) {
			memset(goggml_row(dks, i), 0, size * sizeof *dk);
			memset(goggml_row(dvs, i), 0, size * sizeof *dk);
		}
		for (int64_t i = 0; i < goggml_cuts(n, goggml_queries(q)) * each; i++) {
			int64_t head = first + i % each;
			struct goggml_block b = goggml_block_of(q, k, v, a.scale, head, sample, i / each);
			goggml_block_back(&b, goggml_head_of(dy, head, sample), (struct goggml_head){dq + head * size, size * heads}, dks, dvs);
		}
	}
}

static struct ggml_tensor *goggml_attend(goggml_arena *arena, const int64_t ne[4], struct ggml_tensor **operands, int n,
		ggml_custom_op_t fun, struct goggml_attention a) {
	struct ggml_tensor *t = ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3],
		operands, n, fun, GGML_N_TASKS_MAX, NULL);
	memcpy(t->op_params + CUSTOM_PARAMS, &a, sizeof a);
	return t;
}

goggml_tensor goggml_op_causal_attention(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, float scale) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {q, k, v};
	GUARDED(goggml_tensor, goggml_attend(arena, q->ne, operands, 3, goggml_causal_attention, (struct goggml_attention){.scale = scale}))
}

goggml_tensor goggml_op_causal_attention_back(goggml_a arena, goggml_t dy, goggml_t q, goggml_t k, goggml_t v, float scale, int32_t parts) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {dy, q, k, v};
	int64_t ne[] = {ggml_nelements(q) + 2 * parts * ggml_nelements(k), 1, 1, 1};
	GUARDED(goggml_tensor, goggml_attend(arena, ne, operands, 4, goggml_causal_attention_back, (struct goggml_attention){scale, parts}))
}
