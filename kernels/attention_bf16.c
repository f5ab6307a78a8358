#include "attention_bf16_tile.h"
#include "chunks.h"
#include "scratch.h"

#if defined(__x86_64__)

static bool kern_any_sees(const struct kern_panel *p, int n, int64_t tile) {
	bool any = false;
	for (int i = 0; i < n; i++) {
		any |= kern_sees_some(&p[i], tile);
	}
	return any;
}

// A chunk is a block of queries of a head.
static void kern_attend(const struct kern_task *t, int64_t from, struct ggml_tensor *dst) {
	int64_t result = t->size * KERN_PANEL, rows = t->pairs * KERN_PANEL, scores = KERN_TILE_KEYS * KERN_PANEL;
	int64_t elements = KERN_PANELS * (rows + result) + result + rows + t->pairs * KERN_TILE_KEYS + t->lanes * KERN_TILE_KEYS / 2 + scores + scores / 2;
	struct kern_arena arena = {kern_scratch(KERN_SCRATCH_TILE, elements * sizeof(float))};
	float *x = kern_take(&arena, scores), *temporary = kern_take(&arena, result);
	uint32_t *weights = kern_take(&arena, scores / 2), *vectors = kern_take(&arena, rows);
	uint32_t *keys = kern_take(&arena, t->pairs * KERN_TILE_KEYS), *values = kern_take(&arena, t->lanes * KERN_TILE_KEYS / 2);
	struct kern_panel panels[KERN_PANELS];
	int n = kern_begin_block(panels, t, from);
	for (int i = 0; i < n; i++) {
		struct kern_panel *p = &panels[i];
		p->q = kern_take(&arena, rows), p->result = kern_take(&arena, result);
		kern_pack_lanes(t, kern_head_of(t->q, t->head, t->sample), p->from, vectors, p->q);
		memset(p->result, 0, result * sizeof *p->result);
		for (int j = 0; j < KERN_PANEL; j++) {
			p->top[j] = t->sinks == NULL ? -1e30f : t->sink, p->sum[j] = t->sinks != NULL;
		}
	}
	for (int64_t tile = 0; tile < panels[n - 1].to; tile += KERN_TILE_KEYS) {
		if (!kern_any_sees(panels, n, tile)) {
			continue;
		}
		kern_pack_vectors(t, kern_head_of(t->k, kern_group(t), t->sample), tile, KERN_TILE_KEYS, keys);
		kern_pack_tile(t, kern_head_of(t->v, kern_group(t), t->sample), tile, vectors, values);
		for (int i = 0; i < n; i++) {
			if (kern_sees_some(&panels[i], tile)) {
				kern_scores_of_tile(t, panels[i].q, keys, x);
				kern_weigh_tile(t, &panels[i], tile, x, weights);
				kern_add_result(t, &panels[i], weights, values);
			}
		}
	}
	float *y = (float *)dst->data + t->sample * t->size * t->heads * t->n + t->head * t->size;
	float *logs = (float *)dst->data + ggml_nelements(t->q) + (t->sample * t->heads + t->head) * t->n;
	for (int i = 0; i < n; i++) {
		struct kern_panel *p = &panels[i];
		for (int64_t j = p->from; j < p->to; j++) {
			logs[j] = p->top[j - p->from] + log2f(p->sum[j - p->from]);
		}
		for (int j = 0; j < KERN_PANEL; j++) {
			p->sum[j] = 1 / p->sum[j];
		}
		kern_write_panel(t, p, p->sum, temporary, y, t->size * t->heads);
	}
}

KERN_OP(causal_attention_bf16) {
	(void)ith, (void)userdata;
	struct kern_task t = kern_task_of(dst, 0);
	int64_t all = t.heads * t.q->ne[3], blocks = kern_ceil_div(t.n, KERN_BLOCK_QUERIES);
	for (int64_t j; (j = kern_next_chunk(dst, blocks * all, nth)) >= 0;) {
		t.sample = j % all / t.heads;
		kern_set_head(&t, j % t.heads);
		// Later blocks see more keys and take longer, so they come first.
		kern_attend(&t, (blocks - 1 - j / all) * KERN_BLOCK_QUERIES, dst);
	}
}

// The packed keys of a head, and the gradients of its keys and values.
struct kern_keys {
	uint32_t *k, *v, *k_pairs;
	float *dk, *dv;
	int64_t ld;
};

// Scratch of a block of the gradients.
struct kern_grad_scratch {
	float *x, *dx, *temporary;
	uint32_t *vectors;
	struct kern_tile_grads grads;
	struct kern_panel panels[KERN_PANELS];
};

static void kern_take_grad_scratch(struct kern_grad_scratch *s, const struct kern_task *t) {
	int64_t result = t->size * KERN_PANEL, rows = t->pairs * KERN_PANEL, pairs = t->lanes * KERN_PANEL / 2, scores = KERN_TILE_KEYS * KERN_PANEL;
	struct kern_arena arena = {kern_scratch(KERN_SCRATCH_ACCUMULATOR, (KERN_PANELS * (2 * rows + 2 * pairs + result) + rows + result + 4 * scores) * sizeof(float))};
	s->x = kern_take(&arena, scores), s->dx = kern_take(&arena, scores), s->temporary = kern_take(&arena, result);
	s->vectors = kern_take(&arena, rows);
	s->grads.weights = kern_take(&arena, scores / 2), s->grads.scores = kern_take(&arena, scores / 2), s->grads.pairs = kern_take(&arena, scores / 2);
	for (int i = 0; i < KERN_PANELS; i++) {
		struct kern_panel *p = &s->panels[i];
		p->q = kern_take(&arena, rows), p->dy = kern_take(&arena, rows);
		p->q_pairs = kern_take(&arena, pairs), p->dy_pairs = kern_take(&arena, pairs);
		p->result = kern_take(&arena, result);
	}
}

// Packs a panel's queries and gradients, and computes the mean gradient of their weights, which is dy·y, of dy as the
// products round it. Returns the gradient of the sink, whose own output is 0.
static float kern_begin_panel_grads(const struct kern_task *t, struct kern_panel *p, const struct ggml_tensor *dy, const struct ggml_tensor *saved, uint32_t *vectors) {
	struct kern_head q = kern_head_of(t->q, t->head, t->sample), d = kern_head_of(dy, t->head, t->sample);
	const float *y = (const float *)saved->data + t->sample * t->size * t->heads * t->n + t->head * t->size;
	const float *logs = (const float *)saved->data + ggml_nelements(t->q) + (t->sample * t->heads + t->head) * t->n;
	kern_pack_lanes(t, q, p->from, vectors, p->q);
	kern_pack_lanes(t, d, p->from, vectors, p->dy);
	kern_pack_pairs(t, q, p->from, KERN_PANEL, t->params.scale, p->q_pairs);
	kern_pack_pairs(t, d, p->from, KERN_PANEL, 1, p->dy_pairs);
	memset(p->result, 0, t->size * KERN_PANEL * sizeof *p->result);
	double sink = 0;
	for (int64_t i = 0; i < KERN_PANEL; i++) {
		int64_t query = p->from + i;
		bool present = query < p->to;
		p->top[i] = present ? logs[query] : 0;
		p->mean[i] = present ? kern_dot(d.data + query * d.ld, y + query * t->size * t->heads, t->size) : 0;
		if (present && t->sinks != NULL) {
			sink -= (double)exp2f(t->sink - p->top[i]) * p->mean[i];
		}
	}
	return (float)sink;
}

// Adds the contributions of a block of queries to the gradients of a head, and returns the gradient of the sink.
static float kern_attend_grad(const struct kern_task *t, int64_t from, const struct ggml_tensor *dy, const struct ggml_tensor *saved,
		const struct kern_keys *keys, struct kern_grad_scratch *s, float *dq) {
	float sink = 0, scale[KERN_PANEL];
	int n = kern_begin_block(s->panels, t, from);
	for (int i = 0; i < n; i++) {
		sink += kern_begin_panel_grads(t, &s->panels[i], dy, saved, s->vectors);
	}
	for (int64_t tile = 0; tile < s->panels[n - 1].to; tile += KERN_TILE_KEYS) {
		for (int i = 0; i < n; i++) {
			struct kern_panel *p = &s->panels[i];
			if (!kern_sees_some(p, tile)) {
				continue;
			}
			kern_scores_of_tile(t, p->q, keys->k + tile * t->pairs, s->x);
			kern_scores_of_tile(t, p->dy, keys->v + tile * t->pairs, s->dx);
			kern_weigh_tile_grads(t, p, tile, s->x, s->dx, &s->grads);
			kern_add_keys(t, p->dy_pairs, s->grads.weights, tile, keys->dv, keys->ld);
			kern_add_keys(t, p->q_pairs, s->grads.scores, tile, keys->dk, keys->ld);
			kern_add_result(t, p, s->grads.pairs, keys->k_pairs + tile / 2 * t->lanes);
		}
	}
	for (int i = 0; i < KERN_PANEL; i++) {
		scale[i] = t->params.scale;
	}
	for (int i = 0; i < n; i++) {
		kern_write_panel(t, &s->panels[i], scale, s->temporary, dq, t->size * t->heads);
	}
	return sink;
}

// Packs the keys and values of a group; the scratch has the size of a panel's vectors.
static void kern_pack_keys(const struct kern_task *t, int64_t group, uint32_t *vectors, struct kern_keys *keys) {
	int64_t n = kern_ceil_div(t->n, KERN_TILE_KEYS) * KERN_TILE_KEYS;
	struct kern_arena arena = {kern_scratch(KERN_SCRATCH_TILE, n * (2 * t->pairs + t->lanes / 2) * sizeof(uint32_t))};
	keys->k = kern_take(&arena, n * t->pairs), keys->v = kern_take(&arena, n * t->pairs), keys->k_pairs = kern_take(&arena, n * t->lanes / 2);
	struct kern_head k = kern_head_of(t->k, group, t->sample);
	kern_pack_vectors(t, k, 0, n, keys->k);
	kern_pack_vectors(t, kern_head_of(t->v, group, t->sample), 0, n, keys->v);
	for (int64_t tile = 0; tile < n; tile += KERN_TILE_KEYS) {
		kern_pack_tile(t, k, tile, vectors, keys->k_pairs + tile / 2 * t->lanes);
	}
}

// A chunk is the heads of a part, whose gradients of k and v are summed.
KERN_OP(causal_attention_bf16_grad) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *dy = dst->src[0], *saved = dst->src[1];
	struct kern_task t = kern_task_of(dst, 2);
	int64_t batch = t.q->ne[3], groups = t.k->ne[1], parts = t.params.parts, all = groups * parts, each = t.heads / all, keys = ggml_nelements(t.k);
	float *dk = (float *)dst->data + ggml_nelements(t.q), *sinks = dk + 2 * parts * keys;
	for (int64_t j; (j = kern_next_chunk(dst, all * batch, nth)) >= 0;) {
		t.sample = j / all;
		int64_t group = j % all / parts, part = j % parts, first = j % all * each;
		struct kern_keys of = {.ld = t.size * groups, .dk = dk + part * keys + t.sample * t.size * groups * t.n + group * t.size};
		of.dv = of.dk + parts * keys;
		for (int64_t i = 0; i < t.n; i++) {
			memset(of.dk + i * of.ld, 0, t.size * sizeof(float));
			memset(of.dv + i * of.ld, 0, t.size * sizeof(float));
		}
		struct kern_grad_scratch scratch;
		kern_take_grad_scratch(&scratch, &t);
		kern_pack_keys(&t, group, scratch.vectors, &of);
		for (int64_t head = first; head < first + each; head++) {
			kern_set_head(&t, head);
			float *dq = (float *)dst->data + (t.sample * t.heads * t.n + head) * t.size, sink = 0;
			for (int64_t from = 0; from < t.n; from += KERN_BLOCK_QUERIES) {
				sink += kern_attend_grad(&t, from, dy, saved, &of, &scratch, dq);
			}
			sinks[t.sample * t.heads + head] = sink;
		}
	}
}

#else

KERN_OP(causal_attention_bf16) { (void)dst, (void)ith, (void)nth, (void)userdata; }
KERN_OP(causal_attention_bf16_grad) { (void)dst, (void)ith, (void)nth, (void)userdata; }

#endif
