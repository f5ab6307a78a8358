#include "selective_scan.h"
#include "chunks.h"
#include "head.h"
#include "vector.h"

#include <string.h>

// Rows of a state and tokens whose products stay in registers.
enum { LANES = KERN_LANES, ROWS = 4, TOKENS = 4 };

#define KERN_SCAN_INLINE __attribute__((always_inline)) static inline
#define KERN_SCAN_EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)
#define KERN_SCAN_LANES(x) (*(kern_lanes_anywhere *)(x))

// The operands of a head of a row, from one token on.
struct kern_scan {
	struct kern_head x, b, c, y;
	const float *dt;
	int64_t dt_stride; // distance of tokens
	float a, skip;     // skip is D
	int64_t size, d, n;
};

// What some tokens do with the state before them: y_k = kept_k·Sᵀ·c_k + Σ_j mixed_kj·x_j, then S ← kept·S + Σ_j added_j·b_j·x_jᵀ
// with the last kept. Decays are multiplied, never divided, so that none overflows.
struct kern_scan_tokens {
	float kept[TOKENS], added[TOKENS], mixed[TOKENS][TOKENS]; // mixed[k][j] for j ≤ k
};

// Elements of some rows. The others are zero.
KERN_SCAN_INLINE void kern_scan_load(kern_lanes4 *to, const float *from, const int rows) {
	*to = (kern_lanes4){0};
	memcpy(to, from, rows * sizeof *from);
}

// The rows of the state of some elements of x. `rows` and `tokens` are constants.
KERN_SCAN_INLINE void kern_scan_rows(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, int64_t row,
		const int rows, const int tokens) {
	int64_t d = h->d, i = 0;
	float decay = t->kept[tokens - 1];
	kern_lanes4 x[TOKENS], added[TOKENS], y[TOKENS] = {{0}};
	kern_lanes sums[TOKENS][ROWS] = {{{0}}}, s[ROWS];
	KERN_SCAN_EACH(k, tokens) {
		kern_scan_load(&x[k], kern_vector(h->x, k) + row, rows);
		added[k] = x[k] * t->added[k];
	}
	for (; i + LANES <= d; i += LANES) {
		KERN_SCAN_EACH(r, rows) s[r] = KERN_SCAN_LANES(from + r * d + i);
		KERN_SCAN_EACH(k, tokens) {
			kern_lanes c = KERN_SCAN_LANES(kern_vector(h->c, k) + i);
			KERN_SCAN_EACH(r, rows) sums[k][r] += s[r] * c;
		}
		KERN_SCAN_EACH(r, rows) s[r] *= decay;
		KERN_SCAN_EACH(k, tokens) {
			kern_lanes b = KERN_SCAN_LANES(kern_vector(h->b, k) + i);
			KERN_SCAN_EACH(r, rows) s[r] += b * added[k][r];
		}
		KERN_SCAN_EACH(r, rows) KERN_SCAN_LANES(to + r * d + i) = s[r];
	}
	for (; i < d; i++) {
		kern_lanes4 state = {0};
		KERN_SCAN_EACH(r, rows) state[r] = from[r * d + i];
		KERN_SCAN_EACH(k, tokens) y[k] += state * kern_vector(h->c, k)[i];
		state *= decay;
		KERN_SCAN_EACH(k, tokens) state += added[k] * kern_vector(h->b, k)[i];
		KERN_SCAN_EACH(r, rows) to[r * d + i] = state[r];
	}
	KERN_SCAN_EACH(k, tokens) {
		kern_lanes4 each;
		kern_sum_each(sums[k], &each);
		y[k] = (y[k] + each) * t->kept[k];
		KERN_SCAN_EACH(j, k + 1) y[k] += x[j] * t->mixed[k][j];
		memcpy(kern_vector(h->y, k) + row, &y[k], rows * sizeof(float));
	}
}

KERN_SCAN_INLINE void kern_scan_some(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, const int tokens) {
	int64_t row = 0;
	for (; row + ROWS <= h->size; row += ROWS) {
		kern_scan_rows(to + row * h->d, from + row * h->d, h, t, row, ROWS, tokens);
	}
	for (; row < h->size; row++) {
		kern_scan_rows(to + row * h->d, from + row * h->d, h, t, row, 1, tokens);
	}
}

// All rows of the state, for one token or for TOKENS.
KERN_CLONES static void kern_scan_next(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, int64_t tokens) {
	if (tokens == 1) {
		kern_scan_some(to, from, h, t, 1);
	} else {
		kern_scan_some(to, from, h, t, TOKENS);
	}
}

KERN_CLONES static float kern_scan_dot(const float *a, const float *b, int64_t n) {
	kern_lanes sums = {0};
	float rest = 0;
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		sums += KERN_SCAN_LANES(a + i) * KERN_SCAN_LANES(b + i);
	}
	for (; i < n; i++) {
		rest += a[i] * b[i];
	}
	return kern_sum_lanes(&sums) + rest;
}

// A step is softplus(dt).
static struct kern_scan_tokens kern_scan_tokens(const struct kern_scan *h, int64_t tokens) {
	struct kern_scan_tokens t;
	for (int64_t k = 0; k < tokens; k++) {
		float dt = h->dt[k * h->dt_stride], step = dt > 20 ? dt : log1pf(expf(dt)), decay = expf(step * h->a);
		t.kept[k] = k == 0 ? decay : t.kept[k - 1] * decay;
		for (int64_t j = 0; j < k; j++) {
			t.added[j] *= decay;
		}
		t.added[k] = step;
		for (int64_t j = 0; j <= k; j++) {
			t.mixed[k][j] = t.added[j] * kern_scan_dot(kern_vector(h->b, j), kern_vector(h->c, k), h->d);
		}
		t.mixed[k][k] += h->skip;
	}
	return t;
}

// All tokens of a head. The state is in the written vector after the first tokens.
static void kern_scan_all(float *to, const float *from, struct kern_scan h) {
	while (h.n > 0) {
		int64_t tokens = h.n < TOKENS ? 1 : TOKENS;
		struct kern_scan_tokens t = kern_scan_tokens(&h, tokens);
		kern_scan_next(to, from, &h, &t, tokens);
		from = to, h.n -= tokens, h.dt += tokens * h.dt_stride;
		h.x = kern_head_from(h.x, tokens), h.b = kern_head_from(h.b, tokens), h.c = kern_head_from(h.c, tokens), h.y = kern_head_from(h.y, tokens);
	}
}

static struct kern_scan kern_scan_of(struct ggml_tensor *y, int64_t row, int64_t head) {
	const struct ggml_tensor *x = y->src[0], *dt = y->src[1], *a = y->src[2], *b = y->src[3], *c = y->src[4];
	int64_t group = head / (x->ne[1] / b->ne[1]);
	const struct kern_scan_params *p = kern_params(y);
	const struct ggml_tensor *skip = kern_optional(y, p->d);
	return (struct kern_scan){
		.x = kern_head_of(x, head, row), .b = kern_head_of(b, group, row), .c = kern_head_of(c, group, row), .y = kern_head_of(y, head, row),
		.dt = (const float *)((const char *)dt->data + row * dt->nb[2]) + head, .dt_stride = dt->nb[1] / sizeof(float),
		.a = ((const float *)a->data)[head], .skip = skip == NULL ? 0 : ((const float *)skip->data)[head],
		.size = x->ne[0], .d = b->ne[0], .n = x->ne[2],
	};
}

// The vector of a row by its number; NULL if there is none of that number.
static float *kern_scan_vector(const struct ggml_tensor *states, const struct ggml_tensor *numbers, int64_t row) {
	int32_t number = ((const int32_t *)numbers->data)[row];
	return number < 0 || number >= states->ne[1] ? NULL : (float *)states->data + number * states->ne[0];
}

static void kern_scan_unknown(const struct kern_scan *h) {
	for (int64_t k = 0; k < h->n; k++) {
		for (int64_t i = 0; i < h->size; i++) {
			kern_vector(h->y, k)[i] = NAN;
		}
	}
}

// A head of a row.
static void kern_scan_head(struct ggml_tensor *y, int64_t row, int64_t head) {
	const struct ggml_tensor *states = y->src[5];
	float *from = kern_scan_vector(states, y->src[6], row), *to = kern_scan_vector(states, y->src[7], row);
	int64_t at = states->ne[0] / y->ne[1] * head;
	struct kern_scan h = kern_scan_of(y, row, head);
	if (from == NULL || to == NULL) {
		kern_scan_unknown(&h);
	} else {
		kern_scan_all(to + at, from + at, h);
	}
}

// A chunk is a head of all rows, so that rows with a vector in common follow each other.
KERN_OP(selective_scan) {
	(void)userdata;
	(void)ith;
	for (int64_t head; (head = kern_next_chunk(dst, dst->ne[1], nth)) >= 0;) {
		for (int64_t row = 0; row < dst->ne[3]; row++) {
			kern_scan_head(dst, row, head);
		}
	}
}
