// Some tokens of a selective scan by vectors of WIDTH floats. The products of ROWS rows of a state with TOKENS tokens stay in
// registers. Each kind of processor includes this with its own numbers and name.

#include "lanes.h"
#include "selective_scan_next.h"

#include <string.h>

enum { ROWS = 4 };

// What some tokens do with the state before them: y_k = kept_k·Sᵀ·c_k + Σ_j mixed_kj·x_j, then S ← kept·S + Σ_j added_j·b_j·x_jᵀ
// with the last kept. Decays are multiplied, never divided, so that none overflows.
struct kern_scan_tokens {
	float kept[TOKENS], added[TOKENS], mixed[TOKENS][TOKENS]; // mixed[k][j] for j ≤ k
};

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__attribute__((vector_size(4 * WIDTH))) int){__VA_ARGS__})
#endif

// The index of float i of part p in two vectors: below 4 in the first, the others in the second.
#define LANE(p, i) ((i) / 4 * WIDTH + 4 * (p) + (i) % 4)
#define LANES_OF(p, i, j, k, l) LANE(p, i), LANE(p, j), LANE(p, k), LANE(p, l)
#if WIDTH == 16
#define EACH_PART(...) LANES_OF(0, __VA_ARGS__), LANES_OF(1, __VA_ARGS__), LANES_OF(2, __VA_ARGS__), LANES_OF(3, __VA_ARGS__)
#elif WIDTH == 8
#define EACH_PART(...) LANES_OF(0, __VA_ARGS__), LANES_OF(1, __VA_ARGS__)
#else
#define EACH_PART(...) LANES_OF(0, __VA_ARGS__)
#endif
#define PART(p) LANES_OF(p, 0, 1, 2, 3)

// Part p is the sum of the parts of x[p].
KERN_INLINE void kern_scan_add_parts(const lanes x[PARTS], lanes *sums) {
#if WIDTH == 16
	lanes a = SHUFFLE(x[0], x[1], PART(0), PART(1), PART(4), PART(5)) + SHUFFLE(x[0], x[1], PART(2), PART(3), PART(6), PART(7));
	lanes b = SHUFFLE(x[2], x[3], PART(0), PART(1), PART(4), PART(5)) + SHUFFLE(x[2], x[3], PART(2), PART(3), PART(6), PART(7));
	*sums = SHUFFLE(a, b, PART(0), PART(2), PART(4), PART(6)) + SHUFFLE(a, b, PART(1), PART(3), PART(5), PART(7));
#elif WIDTH == 8
	*sums = SHUFFLE(x[0], x[1], PART(0), PART(2)) + SHUFFLE(x[0], x[1], PART(1), PART(3));
#else
	*sums = x[0];
#endif
}

// Lane r of a part is the sum of that part of x[r].
KERN_INLINE void kern_scan_add_lanes(const lanes x[ROWS], lanes *sums) {
	lanes a = SHUFFLE(x[0], x[1], EACH_PART(0, 4, 1, 5)) + SHUFFLE(x[0], x[1], EACH_PART(2, 6, 3, 7));
	lanes b = SHUFFLE(x[2], x[3], EACH_PART(0, 4, 1, 5)) + SHUFFLE(x[2], x[3], EACH_PART(2, 6, 3, 7));
	*sums = SHUFFLE(a, b, EACH_PART(0, 1, 4, 5)) + SHUFFLE(a, b, EACH_PART(2, 3, 6, 7));
}

KERN_INLINE float kern_scan_dot(const float *a, const float *b, int64_t n) {
	lanes sums = {0};
	float rest = 0;
	int64_t i = 0;
	for (; i + WIDTH <= n; i += WIDTH) {
		sums += LANES_AT(a + i) * LANES_AT(b + i);
	}
	for (; i < n; i++) {
		rest += a[i] * b[i];
	}
	return kern_sum(&sums) + rest;
}

KERN_SCAN_TARGET static void kern_scan_dots(const struct kern_scan *h) {
	for (int64_t k = 0; k < h->n; k++) {
		for (int64_t back = 0; back <= kern_min(k, TOKENS - 1); back++) {
			h->dots[k * KERN_SCAN_TOKENS + back] = kern_scan_dot(kern_vector(h->b, k - back), kern_vector(h->c, k), h->d);
		}
	}
}

KERN_INLINE struct kern_scan_tokens kern_scan_tokens(const struct kern_scan *h, int64_t tokens) {
	struct kern_scan_tokens t;
	for (int64_t k = 0; k < tokens; k++) {
		float decay = h->decays[k];
		t.kept[k] = k == 0 ? decay : t.kept[k - 1] * decay;
		for (int64_t j = 0; j < k; j++) {
			t.added[j] *= decay;
		}
		t.added[k] = h->steps[k];
		for (int64_t j = 0; j <= k; j++) {
			t.mixed[k][j] = t.added[j] * h->dots[k * KERN_SCAN_TOKENS + k - j];
		}
		t.mixed[k][k] += h->skip;
	}
	return t;
}

// Lane r of part p is the sum of all lanes of row r with token k + p.
KERN_INLINE void kern_scan_total(const lanes sums[TOKENS][ROWS], int k, int tokens, lanes *total) {
	lanes each[ROWS];
	KERN_UNROLLED(r, ROWS) {
		lanes of[PARTS] = {{0}};
		KERN_UNROLLED(p, PARTS) {
			if (k + p < tokens) { of[p] = sums[k + p][r]; }
		}
		kern_scan_add_parts(of, &each[r]);
	}
	kern_scan_add_lanes(each, total);
}

// Elements of some rows. The others are zero.
KERN_INLINE void kern_scan_load(lanes4 *to, const float *from, const int rows) {
	*to = (lanes4){0};
	memcpy(to, from, rows * sizeof *from);
}

// The rows of the state of some elements of x. `rows` and `tokens` are constants.
KERN_INLINE void kern_scan_rows(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, int64_t row,
		const int rows, const int tokens) {
	int64_t d = h->d, i = 0;
	float decay = t->kept[tokens - 1];
	lanes4 x[TOKENS], added[TOKENS], y[TOKENS] = {{0}};
	lanes sums[TOKENS][ROWS] = {{{0}}}, s[ROWS];
	KERN_UNROLLED(k, tokens) {
		kern_scan_load(&x[k], kern_vector(h->x, k) + row, rows);
		added[k] = x[k] * t->added[k];
	}
	for (; i + WIDTH <= d; i += WIDTH) {
		KERN_UNROLLED(r, rows) s[r] = LANES_AT(from + r * d + i);
		KERN_UNROLLED(k, tokens) {
			lanes c = LANES_AT(kern_vector(h->c, k) + i);
			KERN_UNROLLED(r, rows) sums[k][r] += s[r] * c;
		}
		KERN_UNROLLED(r, rows) s[r] *= decay;
		KERN_UNROLLED(k, tokens) {
			lanes b = LANES_AT(kern_vector(h->b, k) + i);
			KERN_UNROLLED(r, rows) s[r] += b * added[k][r];
		}
		KERN_UNROLLED(r, rows) LANES_AT(to + r * d + i) = s[r];
	}
	for (; i < d; i++) {
		lanes4 state = {0};
		KERN_UNROLLED(r, rows) state[r] = from[r * d + i];
		KERN_UNROLLED(k, tokens) y[k] += state * kern_vector(h->c, k)[i];
		state *= decay;
		KERN_UNROLLED(k, tokens) state += added[k] * kern_vector(h->b, k)[i];
		KERN_UNROLLED(r, rows) to[r * d + i] = state[r];
	}
	lanes_by4 total; // of the next PARTS tokens
	KERN_UNROLLED(k, tokens) {
		if (k % PARTS == 0) {
			kern_scan_total(sums, k, tokens, &total.all);
		}
		y[k] = (y[k] + total.part[k % PARTS]) * t->kept[k];
		KERN_UNROLLED(j, k + 1) y[k] += x[j] * t->mixed[k][j];
		memcpy(kern_vector(h->y, k) + row, &y[k], rows * sizeof(float));
	}
}

KERN_INLINE void kern_scan_some(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, const int tokens) {
	int64_t row = 0;
	for (; row + ROWS <= h->size; row += ROWS) {
		kern_scan_rows(to + row * h->d, from + row * h->d, h, t, row, ROWS, tokens);
	}
	for (; row < h->size; row++) {
		kern_scan_rows(to + row * h->d, from + row * h->d, h, t, row, 1, tokens);
	}
}

KERN_SCAN_TARGET static int64_t kern_scan_next(float *to, const float *from, const struct kern_scan *h) {
	int64_t count = h->n < TOKENS ? 1 : TOKENS;
	struct kern_scan_tokens t = kern_scan_tokens(h, count);
	if (count == 1) {
		kern_scan_some(to, from, h, &t, 1);
	} else {
		kern_scan_some(to, from, h, &t, TOKENS);
	}
	return count;
}

const struct kern_scan_isa KERN_SCAN_NAME = {kern_scan_dots, kern_scan_next};
