#include "attention_cached.h"
#include "chunks.h"
#include "library.h"
#include "scratch.h"
#include "softmax.h"
#include "tile.h"
#include "vector.h"

#include <string.h>

// Queries of a block, keys of a tile, and keys of the steps by which hidden ones are cut from its ends.
enum { KERN_CACHED_QUERIES = 128, KERN_CACHED_KEYS = 256, KERN_CACHED_STEP = 64, KERN_F16_HIDDEN = 0xfc00 };

// A block of queries of a head. Scores are [KERN_CACHED_KEYS, queries], results [value size, queries].
struct kern_cached_block {
	const struct ggml_tensor *q, *k, *v, *mask;
	int64_t head, group, sample, from, n;
	float bend, scale, slope, sink; // factors of scores before and after the tanh of a softcap (0 for none), and of the mask
	float *scores, *result, *tile;
	float top[KERN_CACHED_QUERIES], sum[KERN_CACHED_QUERIES];
};

enum { KERN_LD_SCORES = KERN_CACHED_KEYS + KERN_LD_PADDING / sizeof(float) };

static const uint16_t *kern_mask_row(const struct kern_cached_block *b, int64_t i) {
	return (const uint16_t *)((const char *)b->mask->data + (b->from + i) * b->mask->nb[1] + b->sample * b->mask->nb[3]);
}

// Reports whether a query sees any of n keys.
KERN_CLONES static bool kern_sees(const uint16_t *mask, int64_t n) {
	uint16_t any = 0;
	for (int64_t i = 0; i < n; i++) {
		any |= mask[i] ^ KERN_F16_HIDDEN;
	}
	return any != 0;
}

static bool kern_block_sees(const struct kern_cached_block *b, int64_t from, int64_t to) {
	for (int64_t i = b->n - 1; i >= 0; i--) { // the last query sees the latest keys
		if (kern_sees(kern_mask_row(b, i) + from, to - from)) {
			return true;
		}
	}
	return false;
}

// Cuts steps of keys that no query sees from both ends of a tile; reports whether any key is left.
static bool kern_cut_tile(const struct kern_cached_block *b, int64_t *from, int64_t *to) {
	while (*from < *to && !kern_block_sees(b, *from, kern_min(*from + KERN_CACHED_STEP, *to))) {
		*from = kern_min(*from + KERN_CACHED_STEP, *to);
	}
	while (*from < *to) {
		int64_t last = *from + (*to - 1 - *from) / KERN_CACHED_STEP * KERN_CACHED_STEP;
		if (kern_block_sees(b, last, *to)) {
			break;
		}
		*to = last;
	}
	return *from < *to;
}

// Returns the vectors of a tile's keys in F32, and their distance.
static const float *kern_cached_tile(const struct kern_cached_block *b, const struct ggml_tensor *x, int64_t from, int64_t to, int64_t *ld) {
	const char *first = (const char *)x->data + from * x->nb[1] + b->group * x->nb[2] + b->sample * x->nb[3];
	if (x->type == GGML_TYPE_F32) {
		*ld = kern_ld(x);
		return (const float *)first;
	}
	ggml_to_float_t convert = kern_to_f32(x->type);
	*ld = x->ne[0];
	for (int64_t i = 0; i < to - from; i++) {
		convert(first + i * x->nb[1], b->tile + i * *ld, *ld);
	}
	return b->tile;
}

// Turns n scores, rounded up to a multiple of KERN_SOFTMAX_STEP, into weights relative to the largest score so far, and
// returns the factor of earlier ones. A hidden key has the weight 0, also before any is seen.
KERN_CLONES static float kern_weigh_row(float *restrict x, const float *restrict mask, int64_t n, float scale, float slope, float *top, float *total) {
	float most[KERN_SOFTMAX_STEP], sum[KERN_SOFTMAX_STEP] = {0};
	for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
		most[i] = *top;
	}
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] = x[j + i] * scale + slope * mask[j + i];
		}
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			most[i] = x[j + i] > most[i] ? x[j + i] : most[i];
		}
	}
	float max = kern_softmax_max(most);
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			float w = kern_exp(x[j + i] - max);
			x[j + i] = w < 1e-28f ? 0 : w; // products with subnormal operands take many times as long
		}
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			sum[i] += x[j + i];
		}
	}
	float factor = kern_exp(*top - max);
	*top = max;
	*total = *total * factor + kern_softmax_sum(sum);
	return factor < 1e-28f ? 0 : factor;
}

KERN_CLONES static void kern_scale_row(float *x, int64_t n, float factor) {
	KERN_EACH(i, n, x[i] *= factor);
}

// Turns the scores of a tile into weights, and scales the results of earlier tiles likewise.
static void kern_weigh_cached(struct kern_cached_block *b, int64_t from, int64_t n) {
	int64_t padded = kern_ceil_div(n, KERN_SOFTMAX_STEP) * KERN_SOFTMAX_STEP;
	ggml_to_float_t convert = kern_to_f32(GGML_TYPE_F16);
	float mask[KERN_CACHED_KEYS];
	for (int64_t j = n; j < padded; j++) {
		mask[j] = -INFINITY;
	}
	for (int64_t i = 0; i < b->n; i++) {
		float *row = b->scores + i * KERN_LD_SCORES;
		convert(kern_mask_row(b, i) + from, mask, n);
		memset(row + n, 0, (padded - n) * sizeof *row);
		if (b->bend != 0) {
			kern_bend_row(row, padded, b->bend);
		}
		float factor = kern_weigh_row(row, mask, padded, b->scale, b->slope, &b->top[i], &b->sum[i]);
		kern_scale_row(b->result + i * b->v->ne[0], b->v->ne[0], factor);
	}
}

// Adds what the keys [from, to) contribute to the results.
static void kern_add_tile(struct kern_cached_block *b, int64_t from, int64_t to) {
	int64_t ld, ld_q = kern_ld(b->q);
	const char *q = (const char *)b->q->data + b->from * b->q->nb[1] + b->head * b->q->nb[2] + b->sample * b->q->nb[3];
	const float *k = kern_cached_tile(b, b->k, from, to, &ld);
	struct kern_gemm scores = {.trans_a = true, .m = to - from, .n = b->n, .k = b->q->ne[0], .lda = ld, .ldb = ld_q, .ldc = KERN_LD_SCORES};
	kern_library_gemm(&scores, k, q, b->scores);
	kern_weigh_cached(b, from, to - from);
	const float *v = kern_cached_tile(b, b->v, from, to, &ld);
	struct kern_gemm results = {.accumulate = true, .m = b->v->ne[0], .n = b->n, .k = to - from, .lda = ld, .ldb = KERN_LD_SCORES, .ldc = b->v->ne[0]};
	kern_library_gemm(&results, v, b->scores, b->result);
}

static void kern_attend_cached(struct kern_cached_block *b, struct ggml_tensor *dst) {
	int64_t size = b->v->ne[0], keys = b->k->ne[1];
	memset(b->result, 0, b->n * size * sizeof *b->result);
	bool sinks = !(b->sink < -1e30f);
	for (int64_t i = 0; i < b->n; i++) {
		b->top[i] = sinks ? b->sink : -1e30f, b->sum[i] = sinks; // the sink is the first score
	}
	for (int64_t tile = 0; tile < keys; tile += KERN_CACHED_KEYS) {
		int64_t from = tile, to = kern_min(tile + KERN_CACHED_KEYS, keys);
		if (kern_cut_tile(b, &from, &to)) {
			kern_add_tile(b, from, to);
		}
	}
	for (int64_t i = 0; i < b->n; i++) {
		float *row = b->result + i * size, *to = (float *)((char *)dst->data + b->head * dst->nb[1] + (b->from + i) * dst->nb[2] + b->sample * dst->nb[3]);
		kern_scale_row(row, size, b->sum[i] == 0 ? 0 : 1 / b->sum[i]);
		memcpy(to, row, size * sizeof *row);
	}
}

// Sets what changes the scores of the block's head.
static void kern_set_scores(struct kern_cached_block *b, const struct kern_cached_params *p, const struct ggml_tensor *sinks) {
	struct kern_scores s = kern_scores_of(p->scale, p->max_bias, sinks, b->head, b->q->ne[2]);
	b->bend = p->softcap == 0 ? 0 : p->scale / p->softcap;
	b->scale = p->softcap == 0 ? p->scale : p->softcap;
	b->slope = p->max_bias == 0 ? 1 : fmaxf(s.slope, 1e-30f); // 0 · −∞ is NaN
	b->sink = s.sink;
}

KERN_OP(cached_attention) {
	(void)ith, (void)userdata;
	struct kern_cached_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	struct kern_cached_block b = {.q = dst->src[0], .k = dst->src[1], .v = dst->src[2], .mask = dst->src[3]};
	int64_t n = b.q->ne[1], heads = b.q->ne[2], all = heads * b.q->ne[3], blocks = kern_ceil_div(n, KERN_CACHED_QUERIES);
	b.scores = kern_scratch(KERN_SCRATCH_TILE, KERN_CACHED_QUERIES * KERN_LD_SCORES * sizeof(float));
	b.result = kern_scratch(KERN_SCRATCH_ACCUMULATOR, KERN_CACHED_QUERIES * b.v->ne[0] * sizeof(float));
	b.tile = kern_scratch(KERN_SCRATCH_COLUMNS, KERN_CACHED_KEYS * kern_max(b.k->ne[0], b.v->ne[0]) * sizeof(float));
	for (int64_t j; (j = kern_next_chunk(dst, blocks * all, nth)) >= 0;) {
		b.head = j % heads, b.sample = j % all / heads, b.group = b.head / (heads / b.k->ne[2]);
		kern_set_scores(&b, &p, kern_optional(dst, p.sinks));
		// Later blocks see more keys and take longer, so they come first.
		b.from = (blocks - 1 - j / all) * KERN_CACHED_QUERIES;
		b.n = kern_min(KERN_CACHED_QUERIES, n - b.from);
		kern_attend_cached(&b, dst);
	}
}
