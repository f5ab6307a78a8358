#include "attention_bf16_tile.h"
#include "gemm_bf16.h"
#include "transpose.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define KERN_BF16_INLINE KERN_BF16 static inline __attribute__((always_inline))

#define KERN_LOG2E 1.44269504f

struct kern_task kern_task_of(const struct ggml_tensor *dst, int q) {
	struct kern_task t = {.q = dst->src[q], .k = dst->src[q + 1], .v = dst->src[q + 2]};
	memcpy(&t.params, kern_params(dst), sizeof t.params);
	t.bounds = kern_bounds_of(dst, t.params.first_visible, t.params.hidden);
	t.sinks = kern_optional(dst, t.params.sinks);
	t.size = t.q->ne[0], t.heads = t.q->ne[1], t.n = t.q->ne[2];
	t.pairs = kern_ceil_div(t.size, 2 * KERN_VECTOR) * KERN_VECTOR;
	t.lanes = kern_ceil_div(t.size, KERN_VECTOR) * KERN_VECTOR;
	return t;
}

void kern_set_head(struct kern_task *t, int64_t head) {
	struct kern_scores s = kern_scores_of(t->params.scale, t->params.max_bias, t->sinks, head, t->heads);
	float softcap = t->params.softcap;
	t->head = head;
	t->bend = softcap == 0 ? 0 : t->params.scale / softcap;
	t->factor = KERN_LOG2E * (softcap == 0 ? t->params.scale : softcap);
	t->slope = KERN_LOG2E * s.slope, t->sink = KERN_LOG2E * s.sink;
}

// Packing.

KERN_BF16_INLINE __mmask16 kern_mask(int64_t n) { return n >= KERN_VECTOR ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

// Two rows of a register each, rounded, as one register.
KERN_BF16_INLINE __m512i kern_round2(__m512 first, __m512 second) { return (__m512i)_mm512_cvtne2ps_pbh(second, first); }

// The elements of both halves of a register in turn.
KERN_BF16_INLINE __m512i kern_interleave(__m512i x) {
	__m512i index = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	return _mm512_permutexvar_epi16(index, x);
}

KERN_BF16 void kern_pack_vectors(const struct kern_task *t, struct kern_head x, int64_t from, int64_t rows, uint32_t *to) {
	for (int64_t i = 0; i < rows; i++, to += t->pairs) {
		const float *row = x.data + (from + i) * x.ld;
		for (int64_t d = 0; d < 2 * t->pairs; d += 2 * KERN_VECTOR) {
			int64_t left = from + i < t->n ? t->size - d : 0;
			__m512 first = _mm512_maskz_loadu_ps(kern_mask(left), row + d), second = _mm512_maskz_loadu_ps(kern_mask(left - KERN_VECTOR), row + d + KERN_VECTOR);
			_mm512_storeu_si512(to + d / 2, kern_round2(first, second));
		}
	}
}

KERN_BF16 void kern_pack_pairs(const struct kern_task *t, struct kern_head x, int64_t from, int64_t rows, float factor, uint32_t *to) {
	__m512 f = _mm512_set1_ps(factor);
	for (int64_t i = from; i < from + rows; i += 2, to += t->lanes) {
		for (int64_t d = 0; d < t->lanes; d += KERN_VECTOR) {
			__mmask16 mask = kern_mask(t->size - d);
			__m512 first = _mm512_maskz_loadu_ps(i < t->n ? mask : 0, x.data + i * x.ld + d);
			__m512 second = _mm512_maskz_loadu_ps(i + 1 < t->n ? mask : 0, x.data + (i + 1) * x.ld + d);
			_mm512_storeu_si512(to + d, kern_interleave(kern_round2(_mm512_mul_ps(first, f), _mm512_mul_ps(second, f))));
		}
	}
}

void kern_pack_tile(const struct kern_task *t, struct kern_head x, int64_t tile, uint32_t *pairs, uint32_t *to) {
	kern_pack_pairs(t, x, tile, KERN_TILE_KEYS, 1, pairs);
	kern_transpose((const float *)pairs, KERN_TILE_KEYS / 2, t->lanes, (float *)to, KERN_TILE_KEYS / 2);
}

void kern_pack_lanes(const struct kern_task *t, struct kern_head x, int64_t from, uint32_t *rows, uint32_t *to) {
	kern_pack_vectors(t, x, from, KERN_PANEL, rows);
	kern_transpose((const float *)rows, KERN_PANEL, t->pairs, (float *)to, KERN_PANEL);
}

static void kern_begin_panel(struct kern_panel *p, const struct kern_task *t, int64_t from) {
	p->from = from, p->to = kern_min(from + KERN_PANEL, t->n);
	p->least_first = from, p->most_first = 0, p->gap_from = 0, p->gap_to = from, p->least_hidden = t->n, p->most_hidden = 0;
	for (int64_t i = 0; i < KERN_PANEL; i++) {
		struct kern_visible v = {.from = INT32_MAX}; // lanes without a query
		if (from + i < p->to) {
			v = kern_visible_to(&t->bounds, from + i, t->sample);
			p->least_first = kern_min(p->least_first, v.from), p->most_first = kern_max(p->most_first, v.from);
			if (v.from < from) { // else it sees no key before the panel
				p->gap_from = kern_max(p->gap_from, v.hidden_from), p->gap_to = kern_min(p->gap_to, v.hidden_to);
			}
			if (v.hidden_from < v.hidden_to) {
				p->least_hidden = kern_min(p->least_hidden, v.hidden_from), p->most_hidden = kern_max(p->most_hidden, v.hidden_to);
			}
		}
		p->first[i] = (int32_t)v.from, p->hidden_from[i] = (int32_t)v.hidden_from, p->hidden_to[i] = (int32_t)v.hidden_to;
	}
}

bool kern_sees_some(const struct kern_panel *p, int64_t key) {
	int64_t end = key + KERN_TILE_KEYS;
	return key < p->to && end > p->least_first && !(p->gap_from <= key && end <= p->gap_to);
}

// Reports whether all queries of a panel see all keys of the tile.
static bool kern_sees_all(const struct kern_panel *p, int64_t key) {
	int64_t end = key + KERN_TILE_KEYS;
	return end <= p->from + 1 && key >= p->most_first && (end <= p->least_hidden || key >= p->most_hidden);
}

int kern_begin_block(struct kern_panel *p, const struct kern_task *t, int64_t from) {
	int n = 0;
	for (; n < KERN_PANELS && from < t->n; n++, from += KERN_PANEL) {
		kern_begin_panel(&p[n], t, from);
	}
	return n;
}

// Scores.

// 2^x for x ≤ 0, or more; NaN stays NaN. 2^f for |f| ≤ 1/2 is the polynomial of kern_exponential.
KERN_BF16_INLINE __m512 kern_exp2(__m512 x) {
	x = _mm512_max_ps(_mm512_set1_ps(-200.0f), x);
	__m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, whole);
	__m512 p = _mm512_set1_ps(1.5403530e-4f);
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3333558e-3f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(p, whole);
}

// tanh(x) = (1 − m) / (1 + m), with m = e^(−2|x|).
KERN_BF16_INLINE __m512 kern_tanh16(__m512 x) {
	__m512 sign = _mm512_set1_ps(-0.0f), one = _mm512_set1_ps(1.0f);
	__m512 m = kern_exp2(_mm512_mul_ps(_mm512_andnot_ps(sign, x), _mm512_set1_ps(-2 * KERN_LOG2E)));
	return _mm512_or_ps(_mm512_div_ps(_mm512_sub_ps(one, m), _mm512_add_ps(one, m)), _mm512_and_ps(sign, x));
}

// A register of lanes of a panel, with what changes their scores.
struct kern_lane {
	__m512i query, first, hidden_from, hidden_to;
	__m512 factor, bend, slope;
};

KERN_BF16_INLINE struct kern_lane kern_lane_of(const struct kern_task *t, const struct kern_panel *p, int i) {
	__m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
	return (struct kern_lane){
		_mm512_add_epi32(count, _mm512_set1_epi32((int)p->from + i)), _mm512_loadu_si512(p->first + i),
		_mm512_loadu_si512(p->hidden_from + i), _mm512_loadu_si512(p->hidden_to + i),
		_mm512_set1_ps(t->factor), _mm512_set1_ps(t->bend), _mm512_set1_ps(t->slope),
	};
}

// Returns the lanes that see a key.
KERN_BF16_INLINE __mmask16 kern_sees(const struct kern_lane *l, int key) {
	__m512i k = _mm512_set1_epi32(key);
	__mmask16 interval = _mm512_mask_cmp_epi32_mask(_mm512_cmple_epi32_mask(l->first, k), k, l->query, _MM_CMPINT_LE);
	return interval & ~_mm512_mask_cmp_epi32_mask(_mm512_cmple_epi32_mask(l->hidden_from, k), k, l->hidden_to, _MM_CMPINT_LT);
}

// Turns the products of a key with the queries into scores; bent is the tanh of a softcap.
KERN_BF16_INLINE __m512 kern_score(const struct kern_lane *l, __m512 product, int key, bool changed, __m512 *bent) {
	if (!changed) {
		return _mm512_mul_ps(product, l->factor);
	}
	if (_mm512_cvtss_f32(l->bend) != 0) {
		*bent = product = kern_tanh16(_mm512_mul_ps(product, l->bend));
	}
	__m512i k = _mm512_set1_epi32(key), distance = _mm512_sub_epi32(k, l->query);
	distance = _mm512_mask_add_epi32(distance, _mm512_cmplt_epi32_mask(k, l->hidden_from), distance, _mm512_sub_epi32(l->hidden_to, l->hidden_from));
	return _mm512_fmadd_ps(product, l->factor, _mm512_mul_ps(l->slope, _mm512_cvtepi32_ps(distance)));
}

KERN_BF16_INLINE void kern_weigh(const struct kern_task *t, struct kern_panel *p, int64_t tile, float *x, uint32_t *weights, bool changed, bool masked) {
	for (int i = 0; i < KERN_PANEL; i += KERN_VECTOR) {
		struct kern_lane l = kern_lane_of(t, p, i);
		__m512 before = _mm512_loadu_ps(p->top + i), top = before, sum = _mm512_setzero_ps(), bent;
		for (int j = 0; j < KERN_TILE_KEYS; j++) {
			__m512 s = kern_score(&l, _mm512_loadu_ps(x + j * KERN_PANEL + i), (int)tile + j, changed, &bent);
			if (masked) {
				s = _mm512_mask_blend_ps(kern_sees(&l, (int)tile + j), _mm512_set1_ps(-INFINITY), s);
			}
			if (changed || masked) {
				_mm512_storeu_ps(x + j * KERN_PANEL + i, s);
			}
			top = _mm512_max_ps(top, s);
		}
		for (int j = 0; j < KERN_TILE_KEYS; j += 2) {
			__m512 e[2];
			for (int h = 0; h < 2; h++) {
				__m512 s = _mm512_loadu_ps(x + (j + h) * KERN_PANEL + i);
				e[h] = kern_exp2(changed || masked ? _mm512_sub_ps(s, top) : _mm512_fmsub_ps(s, l.factor, top));
				if (masked) {
					e[h] = _mm512_maskz_mov_ps(kern_sees(&l, (int)tile + j + h), e[h]);
				}
			}
			sum = _mm512_add_ps(sum, _mm512_add_ps(e[0], e[1]));
			_mm512_storeu_si512(weights + j / 2 * KERN_PANEL + i, kern_interleave(kern_round2(e[0], e[1])));
		}
		__m512 shrink = kern_exp2(_mm512_sub_ps(before, top));
		_mm512_storeu_ps(p->top + i, top);
		_mm512_storeu_ps(p->sum + i, _mm512_fmadd_ps(_mm512_loadu_ps(p->sum + i), shrink, sum));
		if (_mm512_cmp_ps_mask(before, top, _CMP_NEQ_UQ) != 0) {
			for (int64_t d = 0; d < t->size; d++) {
				_mm512_storeu_ps(p->result + d * KERN_PANEL + i, _mm512_mul_ps(_mm512_loadu_ps(p->result + d * KERN_PANEL + i), shrink));
			}
		}
	}
}

KERN_BF16_INLINE void kern_weigh_grads(const struct kern_task *t, const struct kern_panel *p, int64_t tile, const float *x, const float *dx,
		const struct kern_tile_grads *g, bool changed, bool masked) {
	for (int i = 0; i < KERN_PANEL; i += KERN_VECTOR) {
		struct kern_lane l = kern_lane_of(t, p, i);
		__m512 top = _mm512_loadu_ps(p->top + i), mean = _mm512_loadu_ps(p->mean + i);
		for (int j = 0; j < KERN_TILE_KEYS; j += 2) {
			__m512 w[2], d[2];
			for (int h = 0; h < 2; h++) {
				__m512 product = _mm512_loadu_ps(x + (j + h) * KERN_PANEL + i), bent = _mm512_setzero_ps();
				__m512 s = changed ? _mm512_sub_ps(kern_score(&l, product, (int)tile + j + h, true, &bent), top) : _mm512_fmsub_ps(product, l.factor, top);
				w[h] = kern_exp2(s);
				d[h] = _mm512_mul_ps(w[h], _mm512_sub_ps(_mm512_loadu_ps(dx + (j + h) * KERN_PANEL + i), mean));
				if (changed) {
					d[h] = _mm512_mul_ps(d[h], _mm512_fnmadd_ps(bent, bent, _mm512_set1_ps(1.0f)));
				}
				if (masked) {
					__mmask16 sees = kern_sees(&l, (int)tile + j + h);
					w[h] = _mm512_maskz_mov_ps(sees, w[h]);
					d[h] = _mm512_maskz_mov_ps(sees, d[h]);
				}
			}
			__m512i weights = kern_round2(w[0], w[1]), scores = kern_round2(d[0], d[1]);
			_mm256_storeu_si256((__m256i *)(g->weights + j * KERN_PANEL + i), _mm512_castsi512_si256(weights));
			_mm256_storeu_si256((__m256i *)(g->weights + (j + 1) * KERN_PANEL + i), _mm512_extracti64x4_epi64(weights, 1));
			_mm256_storeu_si256((__m256i *)(g->scores + j * KERN_PANEL + i), _mm512_castsi512_si256(scores));
			_mm256_storeu_si256((__m256i *)(g->scores + (j + 1) * KERN_PANEL + i), _mm512_extracti64x4_epi64(scores, 1));
			_mm512_storeu_si512(g->pairs + j / 2 * KERN_PANEL + i, kern_interleave(scores));
		}
	}
}

// Compiles a function for scores that are only scaled, or changed otherwise, and for tiles with hidden keys or without.
#define KERN_BY_KIND(function, changed, masked, ...) \
	((changed) ? (masked) ? function(__VA_ARGS__, true, true) : function(__VA_ARGS__, true, false) : \
		(masked) ? function(__VA_ARGS__, false, true) : function(__VA_ARGS__, false, false))

KERN_BF16 void kern_weigh_tile(const struct kern_task *t, struct kern_panel *p, int64_t tile, float *x, uint32_t *weights) {
	bool changed = t->bend != 0 || t->slope != 0, masked = !kern_sees_all(p, tile);
	KERN_BY_KIND(kern_weigh, changed, masked, t, p, tile, x, weights);
}

KERN_BF16 void kern_weigh_tile_grads(const struct kern_task *t, const struct kern_panel *p, int64_t tile, const float *x, const float *dx, const struct kern_tile_grads *g) {
	bool changed = t->bend != 0 || t->slope != 0, masked = !kern_sees_all(p, tile);
	KERN_BY_KIND(kern_weigh_grads, changed, masked, t, p, tile, x, dx, g);
}

void kern_write_panel(const struct kern_task *t, struct kern_panel *p, const float *factors, float *rows, float *to, int64_t ld) {
	for (int64_t d = 0; d < t->size; d++) {
		for (int64_t i = 0; i < KERN_PANEL; i++) {
			p->result[d * KERN_PANEL + i] *= factors[i];
		}
	}
	kern_transpose(p->result, t->size, KERN_PANEL, rows, t->size);
	for (int64_t i = p->from; i < p->to; i++) {
		memcpy(to + i * ld, rows + (i - p->from) * t->size, t->size * sizeof *to);
	}
}

void kern_scores_of_tile(const struct kern_task *t, const uint32_t *queries, const uint32_t *keys, float *scores) {
	struct kern_gemm_bf16 g = {.m = KERN_PANEL, .n = KERN_TILE_KEYS, .pairs = kern_ceil_div(t->size, 2), .lda = KERN_PANEL, .ldb = t->pairs, .ldc = KERN_PANEL};
	kern_gemm_bf16(&g, queries, keys, scores);
}

void kern_add_result(const struct kern_task *t, struct kern_panel *p, const uint32_t *weights, const uint32_t *elements) {
	struct kern_gemm_bf16 g = {.m = KERN_PANEL, .n = t->size, .pairs = KERN_TILE_KEYS / 2, .lda = KERN_PANEL, .ldb = KERN_TILE_KEYS / 2, .ldc = KERN_PANEL, .accumulate = true};
	kern_gemm_bf16(&g, weights, elements, p->result);
}

void kern_add_keys(const struct kern_task *t, const uint32_t *vectors, const uint16_t *weights, int64_t tile, float *to, int64_t ld) {
	struct kern_gemm_bf16 g = {.m = t->size, .n = kern_min(KERN_TILE_KEYS, t->n - tile), .pairs = KERN_PANEL / 2, .lda = t->lanes, .ldb = KERN_PANEL / 2, .ldc = ld, .accumulate = true};
	kern_gemm_bf16(&g, vectors, (const uint32_t *)weights, to + tile * ld);
}

KERN_BF16 float kern_dot(const float *x, const float *y, int64_t n) {
	__m512 sum = _mm512_setzero_ps();
	for (int64_t i = 0; i < n; i += KERN_VECTOR) {
		__mmask16 mask = kern_mask(n - i);
		__m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
		__m512 upper = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
		sum = _mm512_fmadd_ps(upper, _mm512_maskz_loadu_ps(mask, y + i), sum);
	}
	return _mm512_reduce_add_ps(sum);
}

#endif
