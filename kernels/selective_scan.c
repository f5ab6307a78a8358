#include "selective_scan.h"
#include "chunks.h"
#include "head.h"
#include "vector.h"

enum { LANES = KERN_LANES, TOKENS = 4 }; // tokens for which a row of a state stays in registers

#define KERN_SCAN_INLINE __attribute__((always_inline)) static inline
#define KERN_SCAN_EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)

// The operands of a head of a row, from one token on.
struct kern_scan {
	struct kern_head x, b, c, y;
	const float *dt;
	int64_t dt_stride; // distance of tokens
	float a, skip;     // skip is D
	int64_t size, d, n;
};

// What tokens do: S ← decay·S + step·b·xᵀ.
struct kern_scan_steps {
	float step[TOKENS], decay[TOKENS];
};

// The row of the state of an element of x is read and written once for all tokens. `tokens` is a constant.
KERN_SCAN_INLINE void kern_scan_row(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_steps *t, int64_t row, const int tokens) {
	int64_t d = h->d, i = 0;
	float x[TOKENS], rest[TOKENS] = {0};
	kern_lanes sums[TOKENS] = {{0}};
	KERN_SCAN_EACH(k, tokens) x[k] = kern_vector(h->x, k)[row] * t->step[k];
	for (; i + LANES <= d; i += LANES) {
		kern_lanes s = *(const kern_lanes_anywhere *)(from + i);
		KERN_SCAN_EACH(k, tokens) {
			s = s * t->decay[k] + *(const kern_lanes_anywhere *)(kern_vector(h->b, k) + i) * x[k];
			sums[k] += s * *(const kern_lanes_anywhere *)(kern_vector(h->c, k) + i);
		}
		*(kern_lanes_anywhere *)(to + i) = s;
	}
	for (; i < d; i++) {
		float s = from[i];
		KERN_SCAN_EACH(k, tokens) {
			s = s * t->decay[k] + kern_vector(h->b, k)[i] * x[k];
			rest[k] += s * kern_vector(h->c, k)[i];
		}
		to[i] = s;
	}
	KERN_SCAN_EACH(k, tokens) kern_vector(h->y, k)[row] = kern_sum_lanes(&sums[k]) + rest[k] + h->skip * kern_vector(h->x, k)[row];
}

// All rows of the state, for one token or for TOKENS.
KERN_CLONES static void kern_scan_rows(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_steps *t, int64_t tokens) {
	for (int64_t row = 0; row < h->size; row++, to += h->d, from += h->d) {
		if (tokens == 1) {
			kern_scan_row(to, from, h, t, row, 1);
		} else {
			kern_scan_row(to, from, h, t, row, TOKENS);
		}
	}
}

// A step is softplus(dt).
static struct kern_scan_steps kern_scan_steps(const struct kern_scan *h, int64_t tokens) {
	struct kern_scan_steps t;
	for (int64_t k = 0; k < tokens; k++) {
		float dt = h->dt[k * h->dt_stride];
		t.step[k] = dt > 20 ? dt : log1pf(expf(dt));
		t.decay[k] = expf(t.step[k] * h->a);
	}
	return t;
}

// All tokens of a head. The state is in the written vector after the first tokens.
static void kern_scan_all(float *to, const float *from, struct kern_scan h) {
	while (h.n > 0) {
		int64_t tokens = h.n < TOKENS ? 1 : TOKENS;
		struct kern_scan_steps t = kern_scan_steps(&h, tokens);
		kern_scan_rows(to, from, &h, &t, tokens);
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
