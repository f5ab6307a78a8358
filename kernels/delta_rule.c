#include "delta_rule.h"
#include "delta_rule_chunks.h"
#include "chunks.h"
#include "head.h"
#include "scratch.h"

#include <string.h>

enum {
	KERN_DELTA_VECTORS = 4,
	KERN_DELTA_PANEL = KERN_LANES * KERN_DELTA_VECTORS, // columns of a state
	KERN_DELTA_BLOCK = 32,                              // tokens whose states exist at a time on the way back
};

// A row of a panel.
typedef kern_lanes kern_delta_row[KERN_DELTA_VECTORS];

#define KERN_DELTA_EACH(l) _Pragma("GCC unroll 4") for (int l = 0; l < KERN_DELTA_VECTORS; l++)

// What a token does to a panel of the state.
struct kern_delta_token {
	kern_delta_row v, dy;    // of the panel, dy times 1/√size
	kern_delta_row rest, add; // v − Sᵀ·read, and that times beta
	const float *q, *k, *read;
	float decay, beta; // exp(g)
	float *decays;     // exp(g) of each row of the state; NULL if all rows have one decay
	bool reads;        // read is not 0: a step that only writes need not go through the state once more
};

// These functions are compiled for one decay and for a decay of each row, and for keys that read apart from those that write:
// `rows` and `apart` are constants.
#define KERN_DELTA_INLINE __attribute__((always_inline)) static inline

// Sᵀ·read after the decay.
KERN_DELTA_INLINE void kern_delta_seen(kern_delta_row seen, const kern_delta_row *s, const struct kern_delta_token *t, int64_t size, const bool rows) {
	const float *read = t->read, decay = t->decay;
	kern_delta_row sum = {{0}};
	if (!t->reads) {
		KERN_DELTA_EACH(l) seen[l] = sum[l];
		return;
	}
	for (int64_t i = 0; i < size; i++) {
		float key = rows ? read[i] * t->decays[i] : read[i];
		KERN_DELTA_EACH(l) sum[l] += s[i][l] * key;
	}
	KERN_DELTA_EACH(l) seen[l] = rows ? sum[l] : sum[l] * decay;
}

KERN_DELTA_INLINE void kern_delta_update_by(kern_delta_row *to, const kern_delta_row *from, struct kern_delta_token *t, int64_t size, const bool rows) {
	kern_delta_row seen, add;
	const float *k = t->k;
	kern_delta_seen(seen, from, t, size, rows);
	KERN_DELTA_EACH(l) {
		t->rest[l] = t->v[l] - seen[l];
		t->add[l] = add[l] = t->rest[l] * t->beta;
	}
	for (int64_t i = 0; i < size; i++) {
		float decay = rows ? t->decays[i] : t->decay;
		KERN_DELTA_EACH(l) to[i][l] = from[i][l] * decay + add[l] * k[i];
	}
}

// to ← decay·from + k·addᵀ, which may be the same panel.
KERN_CLONES static void kern_delta_update(kern_delta_row *to, const kern_delta_row *from, struct kern_delta_token *t, int64_t size) {
	if (t->decays != NULL) {
		kern_delta_update_by(to, from, t, size, true);
	} else {
		kern_delta_update_by(to, from, t, size, false);
	}
}

KERN_DELTA_INLINE void kern_delta_read_by(float *y, kern_delta_row *s, struct kern_delta_token *t, float scale, int64_t size, int64_t columns, const bool rows) {
	kern_delta_row seen, read = {{0}}, add;
	const float *q = t->q, *k = t->k;
	kern_delta_seen(seen, s, t, size, rows);
	KERN_DELTA_EACH(l) add[l] = (t->v[l] - seen[l]) * t->beta;
	for (int64_t i = 0; i < size; i++) {
		float decay = rows ? t->decays[i] : t->decay;
		KERN_DELTA_EACH(l) {
			kern_lanes x = s[i][l] * decay + add[l] * k[i];
			s[i][l] = x;
			read[l] += x * q[i];
		}
	}
	KERN_DELTA_EACH(l) read[l] *= scale;
	memcpy(y, read, columns * sizeof *y);
}

// The update in place, and y = Sᵀ·q·scale.
KERN_CLONES static void kern_delta_read(float *y, kern_delta_row *s, struct kern_delta_token *t, float scale, int64_t size, int64_t columns) {
	if (t->decays != NULL) {
		kern_delta_read_by(y, s, t, scale, size, columns, true);
	} else {
		kern_delta_read_by(y, s, t, scale, size, columns, false);
	}
}

KERN_DELTA_INLINE void kern_delta_back_by(struct kern_delta_grads to, kern_delta_row *ds, const kern_delta_row *before, const kern_delta_row *after,
		const struct kern_delta_token *t, int64_t size, int64_t columns, const bool rows, const bool apart) {
	const float *q = t->q, *k = t->k, *read_by = t->read;
	kern_delta_row d_add = {{0}}, d_rest, add, dy;
	KERN_DELTA_EACH(l) {
		add[l] = t->add[l];
		dy[l] = t->dy[l];
	}
	for (int64_t i = 0; i < size; i++) {
		kern_lanes read = {0};
		KERN_DELTA_EACH(l) {
			kern_lanes x = ds[i][l] + dy[l] * q[i];
			ds[i][l] = x;
			d_add[l] += x * k[i];
			read += after[i][l] * dy[l];
		}
		to.q[i] += kern_sum_lanes(&read);
	}
	kern_lanes d_beta = {0}, d_decay = {0};
	KERN_DELTA_EACH(l) {
		d_beta += d_add[l] * t->rest[l];
		d_rest[l] = d_add[l] * t->beta;
	}
	for (int64_t i = 0; i < size; i++) {
		kern_lanes d_key = {0}, d_read = {0};
		float decay = rows ? t->decays[i] : t->decay;
		if (rows) {
			d_decay = (kern_lanes){0};
		}
		KERN_DELTA_EACH(l) {
			kern_lanes x = ds[i][l], s = before[i][l];
			if (apart) {
				d_key += x * add[l];
				d_read -= s * decay * d_rest[l];
			} else {
				d_key += x * add[l] - s * decay * d_rest[l];
			}
			x -= d_rest[l] * read_by[i];
			d_decay += x * s;
			ds[i][l] = x * decay;
		}
		to.k[i] += kern_sum_lanes(&d_key);
		if (apart) {
			to.read[i] += kern_sum_lanes(&d_read);
		}
		if (rows) {
			to.g[i] += kern_sum_lanes(&d_decay) * decay;
		}
	}
	*to.beta += kern_sum_lanes(&d_beta);
	if (!rows) {
		*to.g += kern_sum_lanes(&d_decay) * t->decay;
	}
	memcpy(to.v, d_rest, columns * sizeof *to.v);
}

// The way back through a token: ds is the gradient of the state after it, and becomes the gradient of the state before it.
KERN_CLONES static void kern_delta_back(struct kern_delta_grads to, kern_delta_row *ds, const kern_delta_row *before, const kern_delta_row *after,
		const struct kern_delta_token *t, int64_t size, int64_t columns) {
	if (to.read != NULL && t->decays != NULL) {
		kern_delta_back_by(to, ds, before, after, t, size, columns, true, true);
	} else if (to.read != NULL) {
		kern_delta_back_by(to, ds, before, after, t, size, columns, false, true);
	} else if (t->decays != NULL) {
		kern_delta_back_by(to, ds, before, after, t, size, columns, true, false);
	} else {
		kern_delta_back_by(to, ds, before, after, t, size, columns, false, false);
	}
}

KERN_CLONES static void kern_delta_exp(float *restrict y, const float *restrict x, int64_t n) {
	KERN_EACH(i, n, y[i] = kern_exp(x[i]));
}

static bool kern_delta_any(const float *x, int64_t n) {
	for (int64_t i = 0; i < n; i++) {
		if (x[i] != 0) {
			return true;
		}
	}
	return false;
}

// Reads token i of a panel of columns from `first` on; those behind the last are 0.
static void kern_delta_load(struct kern_delta_token *t, const struct kern_delta_head *h, int64_t i, int64_t first, int64_t columns, float scale) {
	t->q = h->q + i * h->q_stride;
	t->k = h->k + i * h->k_stride;
	t->read = h->read + i * h->read_stride;
	t->reads = h->read == h->k || kern_delta_any(t->read, h->size);
	t->beta = h->beta[i * h->number_stride];
	const float *g = h->g + i * h->number_stride * h->rates;
	if (t->decays != NULL) {
		kern_delta_exp(t->decays, g, h->size);
	} else {
		t->decay = expf(*g);
	}
	memset(t->v, 0, sizeof t->v);
	memcpy(t->v, h->v + i * h->v_stride + first, columns * sizeof(float));
	if (h->dy != NULL) {
		memset(t->dy, 0, sizeof t->dy);
		memcpy(t->dy, h->dy + i * h->y_stride + first, columns * sizeof(float));
		KERN_DELTA_EACH(l) t->dy[l] *= scale;
	}
}

// Whether each row of the state has a decay of its own.
static bool kern_delta_by_row(const struct ggml_tensor *const *src) { return ggml_nelements(src[3]) > ggml_nelements(src[4]); }

// The optional operands, or NULL, and the way to compute.
struct kern_delta_optional {
	const struct ggml_tensor *starts, *read, *state;
	struct kern_delta_rule_params p;
};

// The state of a row and head of v.
static float *kern_delta_state(float *states, const struct ggml_tensor *v, int64_t row, int64_t head) {
	return states + (row * v->ne[1] + head) * v->ne[0] * v->ne[0];
}

// Value head h of a row, and the key head that it uses.
static struct kern_delta_head kern_delta_head(const struct ggml_tensor *const *src, struct kern_delta_optional there, int64_t row, int64_t h) {
	const struct ggml_tensor *v = src[2];
	int64_t n = v->ne[2], size = v->ne[0], heads = v->ne[1], key = h % src[1]->ne[1], number = row * n * heads + h, rates = kern_delta_by_row(src) ? size : 1;
	struct kern_head q = kern_head_of(src[0], key, row), k = kern_head_of(src[1], key, row), values = kern_head_of(v, h, row);
	struct kern_head read = there.read == NULL ? k : kern_head_of(there.read, key, row);
	return (struct kern_delta_head){
		.q = q.data, .k = k.data, .read = read.data, .v = values.data,
		.g = (const float *)src[3]->data + number * rates, .beta = (const float *)src[4]->data + number,
		.starts = there.starts == NULL ? NULL : (const int32_t *)there.starts->data + row * n,
		.state = there.state == NULL ? NULL : kern_delta_state(there.state->data, v, row, h),
		.size = size, .n = n, .q_stride = q.ld, .k_stride = k.ld, .read_stride = read.ld,
		.v_stride = values.ld, .y_stride = heads * size, .number_stride = heads, .rates = rates, .bf16 = there.p.bf16 != 0, .unit = there.p.unit,
	};
}

// Tokens whose decays lie behind them, if there is one for each row of the state.
static struct kern_delta_token *kern_delta_tokens(int64_t count, int64_t size, bool rows) {
	struct kern_delta_token *tokens = kern_scratch(KERN_SCRATCH_ROW, count * (sizeof *tokens + size * sizeof(float)));
	for (int64_t i = 0; i < count; i++) {
		tokens[i].decays = rows ? (float *)(tokens + count) + i * size : NULL;
	}
	return tokens;
}

static struct kern_delta_optional kern_delta_optional_of(const struct ggml_tensor *dst) {
	struct kern_delta_rule_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	return (struct kern_delta_optional){kern_optional(dst, p.starts), kern_optional(dst, p.read), kern_optional(dst, p.state), p};
}

// Computes a panel of columns of a head token by token.
static void kern_delta_panel(const struct kern_delta_head *h, float *y, int64_t first) {
	int64_t size = h->size, columns = kern_min(size - first, KERN_DELTA_PANEL);
	float scale = 1 / sqrtf((float)size);
	kern_delta_row *s = kern_scratch(KERN_SCRATCH_TILE, size * sizeof *s);
	struct kern_delta_token *t = kern_delta_tokens(1, size, h->rates > 1);
	memset(s, 0, size * sizeof *s);
	for (int64_t i = 0; h->state != NULL && i < size * columns; i++) {
		((float *)s[i % size])[i / size] = h->state[first * size + i];
	}
	for (int64_t i = 0; i < h->n; i++) {
		if (kern_delta_starts(h, i)) {
			memset(s, 0, size * sizeof *s);
		}
		kern_delta_load(t, h, i, first, columns, scale);
		kern_delta_read(y + first + i * h->y_stride, s, t, scale, size, columns);
	}
	for (int64_t i = 0; h->after != NULL && i < size * columns; i++) {
		h->after[first * size + i] = ((float *)s[i % size])[i / size];
	}
}

KERN_OP(gated_delta_rule) {
	(void)userdata;
	(void)ith;
	struct kern_delta_optional there = kern_delta_optional_of(dst);
	const struct ggml_tensor *const *src = (const struct ggml_tensor *const *)dst->src, *v = src[2];
	bool by_chunks = there.p.chunks != 0;
	int64_t heads = v->ne[1], panels = by_chunks ? 1 : kern_ceil_div(v->ne[0], KERN_DELTA_PANEL);
	for (int64_t c; (c = kern_next_chunk(dst, panels * heads * v->ne[3], nth)) >= 0;) {
		int64_t row = c / panels / heads, head = c / panels % heads;
		struct kern_delta_head h = kern_delta_head(src, there, row, head);
		float *y = (float *)dst->data + row * h.n * h.y_stride + head * h.size;
		if (h.state != NULL) {
			h.after = kern_delta_state((float *)dst->data + ggml_nelements(v), v, row, head);
		}
		if (by_chunks) {
			kern_delta_chunks(&h, y);
		} else {
			kern_delta_panel(&h, y, c % panels * KERN_DELTA_PANEL);
		}
	}
}

// Memory of a thread for a panel.
struct kern_delta_memory {
	kern_delta_row *ds, *zero;       // the gradient of the state, and the state at the start of a sample
	kern_delta_row *saved;           // before each block
	kern_delta_row *states;          // before the first and after each token of a block
	struct kern_delta_token *tokens; // of a block
};

static struct kern_delta_memory kern_delta_memory(int64_t size, int64_t n, bool rows) {
	struct kern_delta_memory m;
	m.ds = kern_scratch(KERN_SCRATCH_ACCUMULATOR, 2 * size * sizeof *m.ds);
	m.zero = m.ds + size;
	memset(m.zero, 0, size * sizeof *m.zero);
	m.saved = kern_scratch(KERN_SCRATCH_COLUMNS, kern_ceil_div(n, KERN_DELTA_BLOCK) * size * sizeof *m.saved);
	m.states = kern_scratch(KERN_SCRATCH_TILE, (KERN_DELTA_BLOCK + 1) * size * sizeof *m.states);
	m.tokens = kern_delta_tokens(KERN_DELTA_BLOCK, size, rows);
	return m;
}

// Adds a panel of a head to the gradients. It computes the states before blocks first, and then again the states within each
// block, from the last block to the first.
static void kern_delta_panel_back(struct kern_delta_grads to, const struct kern_delta_head *h, struct kern_delta_memory m, int64_t first, float scale) {
	int64_t size = h->size, n = h->n, columns = kern_min(size - first, KERN_DELTA_PANEL), blocks = kern_ceil_div(n, KERN_DELTA_BLOCK);
	size_t bytes = size * sizeof *m.ds;
	memset(m.states, 0, bytes);
	for (int64_t i = 0; i < (blocks - 1) * KERN_DELTA_BLOCK; i++) {
		if (i % KERN_DELTA_BLOCK == 0) {
			memcpy(m.saved + i / KERN_DELTA_BLOCK * size, m.states, bytes);
		}
		kern_delta_load(m.tokens, h, i, first, columns, scale);
		kern_delta_update(m.states, kern_delta_starts(h, i) ? m.zero : m.states, m.tokens, size);
	}
	memcpy(m.saved + (blocks - 1) * size, m.states, bytes);
	memset(m.ds, 0, bytes);
	for (int64_t b = blocks - 1; b >= 0; b--) {
		int64_t from = b * KERN_DELTA_BLOCK, count = kern_min(n - from, KERN_DELTA_BLOCK);
		memcpy(m.states, m.saved + b * size, bytes);
		for (int64_t j = 0; j < count; j++) {
			kern_delta_load(m.tokens + j, h, from + j, first, columns, scale);
			kern_delta_update(m.states + (j + 1) * size, kern_delta_starts(h, from + j) ? m.zero : m.states + j * size, m.tokens + j, size);
		}
		for (int64_t j = count - 1; j >= 0; j--) {
			int64_t i = from + j;
			bool starts = kern_delta_starts(h, i);
			struct kern_delta_grads at = {
				to.q + i * to.key_stride, to.k + i * to.key_stride, to.g + i * h->number_stride * h->rates, to.beta + i * h->number_stride,
				to.read == NULL ? NULL : to.read + i * to.read_stride, to.v + i * to.v_stride + first,
			};
			kern_delta_back(at, m.ds, starts ? m.zero : m.states + j * size, m.states + (j + 1) * size, m.tokens + j, size, columns);
			if (starts) {
				memset(m.ds, 0, bytes);
			}
		}
	}
}

// Adds a head to the gradients token by token.
static void kern_delta_panels_back(struct kern_delta_grads to, const struct kern_delta_head *h) {
	struct kern_delta_memory m = kern_delta_memory(h->size, h->n, h->rates > 1);
	for (int64_t first = 0; first < h->size; first += KERN_DELTA_PANEL) {
		kern_delta_panel_back(to, h, m, first, 1 / sqrtf((float)h->size));
	}
}

// Where the gradients of a head of a row go, if the gradients of all heads and rows begin at q.
static struct kern_delta_grads kern_delta_grads_of(float *q, struct kern_delta_rule_params p, const struct kern_delta_head *h, int64_t keys, int64_t rows,
		int64_t row, int64_t head) {
	int64_t heads = h->number_stride, all = rows * h->n, token = row * h->n, key = keys * h->size, value = heads * h->size, width = 2 * key + value;
	int64_t key_stride = p.beside ? width : key, v_stride = p.beside ? width : value, apart = p.beside ? key : all * key;
	float *g = q + all * width, *beta = g + all * heads * h->rates, *read = beta + all * heads;
	int64_t at = token * key_stride + head % keys * h->size;
	return (struct kern_delta_grads){
		.q = q + at, .k = q + apart + at, .v = q + 2 * apart + token * v_stride + head * h->size, .g = g + (token * heads + head) * h->rates,
		.beta = beta + token * heads + head, .read = p.read == 0 ? NULL : read + token * key + head % keys * h->size,
		.key_stride = key_stride, .read_stride = key, .v_stride = v_stride,
	};
}

// Sets what a head adds to to 0: the gradients of its head of keys if it is the first to use it.
static void kern_delta_clear_grads(struct kern_delta_grads to, const struct kern_delta_head *h, bool keys) {
	size_t bytes = h->size * sizeof(float);
	for (int64_t i = 0; i < h->n; i++) {
		if (keys) {
			memset(to.q + i * to.key_stride, 0, bytes);
			memset(to.k + i * to.key_stride, 0, bytes);
			if (to.read != NULL) {
				memset(to.read + i * to.read_stride, 0, bytes);
			}
		}
		memset(to.g + i * h->number_stride * h->rates, 0, h->rates * sizeof(float));
		to.beta[i * h->number_stride] = 0;
	}
}

// A chunk is a head of keys with all heads of values that use it, so that no two add to the same gradient.
KERN_OP(gated_delta_rule_grad) {
	(void)userdata;
	(void)ith;
	const struct ggml_tensor *const *src = (const struct ggml_tensor *const *)dst->src + 1, *dy = dst->src[0], *v = src[2];
	int64_t heads = v->ne[1], keys = src[1]->ne[1];
	struct kern_delta_optional there = kern_delta_optional_of(dst);
	for (int64_t c; (c = kern_next_chunk(dst, keys * v->ne[3], nth)) >= 0;) {
		for (int64_t row = c / keys, head = c % keys; head < heads; head += keys) {
			struct kern_delta_head h = kern_delta_head(src, there, row, head);
			h.dy = kern_head_of(dy, head, row).data;
			struct kern_delta_grads to = kern_delta_grads_of(dst->data, there.p, &h, keys, v->ne[3], row, head);
			kern_delta_clear_grads(to, &h, head < keys);
			if (there.p.chunks != 0) {
				kern_delta_chunks_back(&h, to);
			} else {
				kern_delta_panels_back(to, &h);
			}
		}
	}
}
