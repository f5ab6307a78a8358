// Some tokens of a selective scan by vectors of WIDTH floats. The products of ROWS rows of a state with TOKENS tokens stay in
// registers. Each kind of processor includes this with its own numbers, and gets a kern_scan_next.

#include "selective_scan_next.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4 };

#define KERN_SCAN_INLINE __attribute__((always_inline)) static inline
#define KERN_SCAN_EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)

typedef float lanes __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef float lanes4 __attribute__((vector_size(16)));
#define LANES_AT(x) (*(lanes *)(x))

// What some tokens do with the state before them: y_k = kept_k·Sᵀ·c_k + Σ_j mixed_kj·x_j, then S ← kept·S + Σ_j added_j·b_j·x_jᵀ
// with the last kept. Decays are multiplied, never divided, so that none overflows.
struct kern_scan_tokens {
	float kept[TOKENS], added[TOKENS], mixed[TOKENS][TOKENS]; // mixed[k][j] for j ≤ k
};

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__attribute__((vector_size(16))) int){__VA_ARGS__})
#endif

// The sum of each of four vectors.
KERN_SCAN_INLINE lanes4 kern_scan_sums(const lanes4 x[ROWS]) {
	lanes4 a = SHUFFLE(x[0], x[1], 0, 4, 1, 5) + SHUFFLE(x[0], x[1], 2, 6, 3, 7);
	lanes4 b = SHUFFLE(x[2], x[3], 0, 4, 1, 5) + SHUFFLE(x[2], x[3], 2, 6, 3, 7);
	return SHUFFLE(a, b, 0, 1, 4, 5) + SHUFFLE(a, b, 2, 3, 6, 7);
}

// Adds the parts of a vector up to one of four lanes.
KERN_SCAN_INLINE void kern_scan_fold(const lanes *x, lanes4 *sum) {
	union { lanes all; lanes4 part[WIDTH / 4]; } by4 = {*x};
	*sum = by4.part[0];
	KERN_SCAN_EACH(i, WIDTH / 4 - 1) *sum += by4.part[i + 1];
}

KERN_SCAN_INLINE float kern_scan_dot(const float *a, const float *b, int64_t n) {
	lanes sums = {0};
	float rest = 0;
	int64_t i = 0;
	for (; i + WIDTH <= n; i += WIDTH) {
		sums += LANES_AT(a + i) * LANES_AT(b + i);
	}
	for (; i < n; i++) {
		rest += a[i] * b[i];
	}
	lanes4 quarter;
	kern_scan_fold(&sums, &quarter);
	return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]) + rest;
}

// A step is softplus(dt).
KERN_SCAN_INLINE struct kern_scan_tokens kern_scan_tokens(const struct kern_scan *h, int64_t tokens) {
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

// Elements of some rows. The others are zero.
KERN_SCAN_INLINE void kern_scan_load(lanes4 *to, const float *from, const int rows) {
	*to = (lanes4){0};
	memcpy(to, from, rows * sizeof *from);
}

// The rows of the state of some elements of x. `rows` and `tokens` are constants.
KERN_SCAN_INLINE void kern_scan_rows(float *to, const float *from, const struct kern_scan *h, const struct kern_scan_tokens *t, int64_t row,
		const int rows, const int tokens) {
	int64_t d = h->d, i = 0;
	float decay = t->kept[tokens - 1];
	lanes4 x[TOKENS], added[TOKENS], y[TOKENS] = {{0}};
	lanes sums[TOKENS][ROWS] = {{{0}}}, s[ROWS];
	KERN_SCAN_EACH(k, tokens) {
		kern_scan_load(&x[k], kern_vector(h->x, k) + row, rows);
		added[k] = x[k] * t->added[k];
	}
	for (; i + WIDTH <= d; i += WIDTH) {
		KERN_SCAN_EACH(r, rows) s[r] = LANES_AT(from + r * d + i);
		KERN_SCAN_EACH(k, tokens) {
			lanes c = LANES_AT(kern_vector(h->c, k) + i);
			KERN_SCAN_EACH(r, rows) sums[k][r] += s[r] * c;
		}
		KERN_SCAN_EACH(r, rows) s[r] *= decay;
		KERN_SCAN_EACH(k, tokens) {
			lanes b = LANES_AT(kern_vector(h->b, k) + i);
			KERN_SCAN_EACH(r, rows) s[r] += b * added[k][r];
		}
		KERN_SCAN_EACH(r, rows) LANES_AT(to + r * d + i) = s[r];
	}
	for (; i < d; i++) {
		lanes4 state = {0};
		KERN_SCAN_EACH(r, rows) state[r] = from[r * d + i];
		KERN_SCAN_EACH(k, tokens) y[k] += state * kern_vector(h->c, k)[i];
		state *= decay;
		KERN_SCAN_EACH(k, tokens) state += added[k] * kern_vector(h->b, k)[i];
		KERN_SCAN_EACH(r, rows) to[r * d + i] = state[r];
	}
	KERN_SCAN_EACH(k, tokens) {
		lanes4 each[ROWS];
		KERN_SCAN_EACH(r, ROWS) kern_scan_fold(&sums[k][r], &each[r]);
		y[k] = (y[k] + kern_scan_sums(each)) * t->kept[k];
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

int64_t KERN_SCAN_NEXT(float *to, const float *from, const struct kern_scan *h) {
	int64_t count = h->n < TOKENS ? 1 : TOKENS;
	struct kern_scan_tokens t = kern_scan_tokens(h, count);
	if (count == 1) {
		kern_scan_some(to, from, h, &t, 1);
	} else {
		kern_scan_some(to, from, h, &t, TOKENS);
	}
	return count;
}
