#include "attention.h"
#include "chunks.h"
#include "library.h"
#include "scratch.h"
#include "softmax.h"
#include "vector.h"

#include <string.h>

// Queries of a block. Many share what a GEMM does to the keys before it; few see fewer keys for nothing.
enum { KERN_QUERIES = 64, KERN_QUERIES_LONG = 128, KERN_LONG = 1024 };

static int64_t kern_block_size(const struct ggml_tensor *q) { return q->ne[2] > KERN_LONG ? KERN_QUERIES_LONG : KERN_QUERIES; }

// The vectors of a head: a matrix [size, n].
struct kern_head {
	float *data;
	int64_t ld;
};

static struct kern_head kern_head_of(const struct ggml_tensor *t, int64_t head, int64_t sample) {
	int64_t ld = t->ne[2] > 1 ? t->nb[2] / sizeof(float) : t->ne[0];
	return (struct kern_head){(float *)((char *)t->data + head * t->nb[1] + sample * t->nb[3]), ld};
}

static float *kern_vector(struct kern_head h, int64_t i) { return h.data + i * h.ld; }

// A block: the queries [from, to) of a head, which see the keys up to to. Its scores are [to, to − from].
struct kern_block {
	int64_t size, from, to, ld_scores;
	float scale;
	struct kern_head q, k, v;
};

static struct kern_block kern_block_of(const struct ggml_tensor *q, const struct ggml_tensor *k, const struct ggml_tensor *v,
		float scale, int64_t head, int64_t sample, int64_t i) {
	int64_t from = i * kern_block_size(q), to = kern_min(q->ne[2], from + kern_block_size(q)), group = head / (q->ne[1] / k->ne[1]);
	return (struct kern_block){
		.size = q->ne[0], .from = from, .to = to, .scale = scale,
		.ld_scores = kern_ceil_div(to, KERN_SOFTMAX_STEP) * KERN_SOFTMAX_STEP + KERN_LD_PADDING / sizeof(float),
		.q = kern_head_of(q, head, sample), .k = kern_head_of(k, group, sample), .v = kern_head_of(v, group, sample),
	};
}

static float *kern_block_scratch(const struct kern_block *b, enum kern_scratch_use use) {
	return kern_scratch(use, (b->to - b->from) * b->ld_scores * sizeof(float));
}

// scores = Yᵀ·X, for the vectors of all keys in Y and those of the block's queries in X.
static void kern_qk_scores(const struct kern_block *b, struct kern_head x, struct kern_head y, float *scores) {
	struct kern_gemm g = {
		.trans_a = true, .m = b->to, .n = b->to - b->from, .k = b->size, .lda = y.ld, .ldb = x.ld, .ldc = b->ld_scores,
	};
	kern_library_gemm(&g, y.data, kern_vector(x, b->from), scores);
}

// The block's queries of Y = X·scores, for the vectors of all keys in X.
static void kern_gemm_nn(const struct kern_block *b, const float *scores, struct kern_head x, struct kern_head y) {
	struct kern_gemm g = {
		.m = b->size, .n = b->to - b->from, .k = b->to, .lda = x.ld, .ldb = b->ld_scores, .ldc = y.ld,
	};
	kern_library_gemm(&g, x.data, scores, kern_vector(y, b->from));
}

// All keys of Y += X·scoresᵀ, for the vectors of the block's queries in X.
static void kern_gemm_nt_accumulate(const struct kern_block *b, const float *scores, struct kern_head x, struct kern_head y) {
	struct kern_gemm g = {
		.trans_b = true, .accumulate = true,
		.m = b->size, .n = b->to, .k = b->to - b->from, .lda = x.ld, .ldb = b->ld_scores, .ldc = y.ld,
	};
	kern_library_gemm(&g, kern_vector(x, b->from), scores, y.data);
}

static float *kern_softmax_qk(const struct kern_block *b) {
	float *weights = kern_block_scratch(b, KERN_SCRATCH_TILE);
	kern_qk_scores(b, b->q, b->k, weights);
	for (int64_t i = b->from; i < b->to; i++) {
		kern_softmax(weights + (i - b->from) * b->ld_scores, i + 1, b->ld_scores, b->scale);
	}
	return weights;
}

// The gradient of scores from that of weights, in place: of n elements, and zeros behind them up to a multiple of
// KERN_SOFTMAX_STEP.
KERN_CLONES static void kern_softmax_grad_row(float *restrict d, const float *restrict weights, int64_t n, float scale) {
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
}

static void kern_softmax_grad(const struct kern_block *b, float *d, const float *weights) {
	for (int64_t i = b->from; i < b->to; i++) {
		float *row = d + (i - b->from) * b->ld_scores;
		memset(row + i + 1, 0, (b->ld_scores - i - 1) * sizeof *row);
		kern_softmax_grad_row(row, weights + (i - b->from) * b->ld_scores, i + 1, b->scale);
	}
}

static struct kern_attention_params kern_attention_params(const struct ggml_tensor *dst) {
	struct kern_attention_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	return p;
}

KERN_OP(causal_attention) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *q = dst->src[0];
	float scale = kern_attention_params(dst).scale;
	int64_t heads = q->ne[1], all = heads * q->ne[3], blocks = kern_ceil_div(q->ne[2], kern_block_size(q));
	for (int64_t j; (j = kern_next_chunk(dst, blocks * all, nth)) >= 0;) {
		int64_t head = j % heads, sample = j % all / heads;
		// Later blocks see more keys, and take longer: they come first.
		struct kern_block b = kern_block_of(q, dst->src[1], dst->src[2], scale, head, sample, blocks - 1 - j / all);
		kern_gemm_nn(&b, kern_softmax_qk(&b), b.v, kern_head_of(dst, head, sample));
	}
}

// Adds a block's part to the gradients.
static void kern_block_grad(const struct kern_block *b, struct kern_head dy, struct kern_head dq, struct kern_head dk, struct kern_head dv) {
	float *weights = kern_softmax_qk(b), *d = kern_block_scratch(b, KERN_SCRATCH_ACCUMULATOR);
	kern_gemm_nt_accumulate(b, weights, dy, dv);
	kern_qk_scores(b, dy, b->v, d);
	kern_softmax_grad(b, d, weights);
	kern_gemm_nn(b, d, b->k, dq);
	kern_gemm_nt_accumulate(b, d, b->q, dk);
}

// A chunk is the heads of a part, whose gradients of k and v add up.
KERN_OP(causal_attention_grad) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *dy = dst->src[0], *q = dst->src[1], *k = dst->src[2], *v = dst->src[3];
	struct kern_attention_params p = kern_attention_params(dst);
	int64_t size = q->ne[0], n = q->ne[2], heads = q->ne[1], groups = k->ne[1];
	int64_t all = groups * p.parts, each = heads / all, keys = size * groups * n * q->ne[3];
	for (int64_t j; (j = kern_next_chunk(dst, all * q->ne[3], nth)) >= 0;) {
		int64_t sample = j / all, group = j % all / p.parts, part = j % p.parts, first = j % all * each;
		float *dq = (float *)dst->data + sample * size * heads * n;
		float *dk = (float *)dst->data + size * heads * n * q->ne[3] + part * keys + sample * size * groups * n + group * size;
		struct kern_head dks = {dk, size * groups}, dvs = {dk + p.parts * keys, size * groups};
		for (int64_t i = 0; i < n; i++) {
			memset(kern_vector(dks, i), 0, size * sizeof *dk);
			memset(kern_vector(dvs, i), 0, size * sizeof *dk);
		}
		for (int64_t i = 0; i < kern_ceil_div(n, kern_block_size(q)) * each; i++) {
			int64_t head = first + i % each;
			struct kern_block b = kern_block_of(q, k, v, p.scale, head, sample, i / each);
			kern_block_grad(&b, kern_head_of(dy, head, sample), (struct kern_head){dq + head * size, size * heads}, dks, dvs);
		}
	}
}
