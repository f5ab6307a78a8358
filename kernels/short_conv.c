#include "short_conv.h"
#include "chunks.h"
#include "scratch.h"
#include "vector.h"

#include <string.h>

enum { KERN_CONV_LANES = 64 }; // channels whose sums stay in registers

// A convolution of a block of channels of a row.
struct kern_conv {
	struct kern_short_conv_params p;
	const struct ggml_tensor *x, *kernel, *before, *bias, *positions;
	int64_t n, taps, distance; // of the last tap, in tokens
	const float *weights;      // [channels, taps], the nearest tap first
	const float *offsets;      // biases of the channels
	int64_t row, first, channels;
	int64_t b, edges;          // taps reach b tokens before x, from the first `edges` tokens
	const float *edge;         // [channels, b+edges]: these tokens
};

static struct kern_conv kern_conv_of(const struct ggml_tensor *dst, const struct ggml_tensor *x, const struct ggml_tensor *kernel) {
	struct kern_conv c = {.x = x, .kernel = kernel, .taps = kernel->ne[0]};
	memcpy(&c.p, kern_params(dst), sizeof c.p);
	c.before = kern_optional(dst, c.p.before);
	c.bias = kern_optional(dst, c.p.bias);
	c.positions = kern_optional(dst, c.p.positions);
	c.n = x->ne[1];
	c.distance = (c.taps - 1) * c.p.step;
	c.b = c.before == NULL ? 0 : kern_min(c.before->ne[1], c.distance);
	return c;
}

// The channels of token i of a tensor of this row.
static float *kern_conv_token(const struct kern_conv *c, const struct ggml_tensor *t, int64_t i) {
	return (float *)((char *)t->data + c->row * t->nb[2] + i * t->nb[1]) + c->first;
}

static int64_t kern_conv_blocks(const struct kern_conv *c) { return kern_ceil_div(c->x->ne[0], KERN_CONV_CHANNELS); }

// Lays the first tokens out behind those before them.
static void kern_conv_edge(const struct kern_conv *c, float *edge) {
	int64_t unreached = c->before->ne[1] - c->b;
	for (int64_t i = 0; i < c->b + c->edges; i++) {
		const float *token = i < c->b ? kern_conv_token(c, c->before, unreached + i) : kern_conv_token(c, c->x, i - c->b);
		memcpy(edge + i * c->channels, token, c->channels * sizeof *edge);
	}
}

// Selects a block of channels for the tokens [from, to), and lays its weights out by taps.
static void kern_conv_select(struct kern_conv *c, int64_t row, int64_t block, int64_t from, int64_t to) {
	c->row = row;
	c->first = block * KERN_CONV_CHANNELS;
	c->channels = kern_min(KERN_CONV_CHANNELS, c->x->ne[0] - c->first);
	c->edges = c->b > 0 && from < c->distance ? kern_min(to, c->distance) : 0;
	float *weights = kern_scratch(KERN_SCRATCH_TILE, (c->taps + 1 + c->b + c->edges) * c->channels * sizeof *weights);
	float *offsets = weights + c->taps * c->channels, *edge = offsets + c->channels;
	const float *kernel = (const float *)c->kernel->data + c->first * c->taps;
	for (int64_t j = 0; j < c->taps; j++) {
		for (int64_t i = 0; i < c->channels; i++) {
			weights[j * c->channels + i] = kernel[i * c->taps + c->taps - 1 - j];
		}
	}
	memset(offsets, 0, c->channels * sizeof *offsets);
	if (c->bias != NULL) {
		memcpy(offsets, (const float *)c->bias->data + c->first, c->channels * sizeof *offsets);
	}
	if (c->edges > 0) {
		kern_conv_edge(c, edge);
	}
	c->weights = weights, c->offsets = offsets, c->edge = edge;
}

// The taps of token i that lie in its sample.
static int64_t kern_conv_reach(const struct kern_conv *c, int64_t i) {
	int64_t back = c->b + i;
	if (c->positions != NULL) {
		int64_t position = ((const int32_t *)c->positions->data)[c->row * c->n + i];
		back = kern_min(back, kern_max(position, 0));
	}
	return kern_min(c->taps, back / c->p.step + 1);
}

#define KERN_CONV_INLINE __attribute__((always_inline)) static inline

// A pass over the channels of a token: y = Σ taps, activated or times the slope of the activation.
struct kern_conv_pass {
	float *y;
	const float *x;       // of the token, or gradients of the results that it is in
	const float *dy;      // gradient of the result, for the gradient of the sum; NULL: y is the result
	const float *weights; // of the first tap
	const float *offsets; // added to the sum; NULL for none
	int64_t channels, taps, stride;
	bool silu;
};

// The sums of taps of 64 channels, which stay in registers: Σ_j weights_j,l · x_l,j, where tap j lies j strides from x.
KERN_CONV_INLINE void kern_conv_sum(float *sums, const struct kern_conv_pass *p, int64_t at) {
	enum { VECTORS = KERN_CONV_LANES / KERN_LANES };
	kern_lanes_anywhere *to = (kern_lanes_anywhere *)sums;
	kern_lanes sum[VECTORS] = {{0}};
	if (p->offsets != NULL) {
		_Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[v] = ((const kern_lanes_anywhere *)(p->offsets + at))[v];
	}
	for (int64_t j = 0; j < p->taps; j++) {
		const kern_lanes_anywhere *weights = (const kern_lanes_anywhere *)(p->weights + j * p->channels + at),
								  *x = (const kern_lanes_anywhere *)(p->x + j * p->stride + at);
		_Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[v] += weights[v] * x[v];
	}
	_Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) to[v] = sum[v];
}

// The sums of fewer channels.
KERN_CONV_INLINE void kern_conv_sum_rest(float *sums, const struct kern_conv_pass *p, int64_t at, int64_t lanes) {
	for (int64_t l = 0; l < lanes; l++) {
		sums[l] = p->offsets == NULL ? 0 : p->offsets[at + l];
		for (int64_t j = 0; j < p->taps; j++) {
			sums[l] += p->weights[j * p->channels + at + l] * p->x[j * p->stride + at + l];
		}
	}
}

// y = x·σ(x), or dy times the slope of that if there is a dy. Local copies let the compiler vectorise loops.
KERN_CONV_INLINE void kern_conv_silu(float *y, const float *dy, float *x, int64_t lanes) {
	float d[KERN_CONV_LANES];
	if (dy == NULL) {
		for (int64_t l = 0; l < lanes; l++) {
			x[l] *= kern_sigmoid(x[l]);
		}
	} else {
		memcpy(d, dy, lanes * sizeof *d);
		for (int64_t l = 0; l < lanes; l++) {
			x[l] = d[l] * kern_gate_slope(x[l], x[l]);
		}
	}
	memcpy(y, x, lanes * sizeof *x);
}

KERN_CONV_INLINE void kern_conv_finish(const struct kern_conv_pass *p, int64_t at, float *sums, int64_t lanes) {
	if (p->silu) {
		kern_conv_silu(p->y + at, p->dy == NULL ? NULL : p->dy + at, sums, lanes);
	} else {
		memcpy(p->y + at, sums, lanes * sizeof *sums);
	}
}

// Lanes are constant but for the last, so that loops become vector instructions.
KERN_CLONES static void kern_conv_run(const struct kern_conv_pass *p) {
	float sums[KERN_CONV_LANES];
	int64_t at = 0;
	for (; at + KERN_CONV_LANES <= p->channels; at += KERN_CONV_LANES) {
		kern_conv_sum(sums, p, at);
		kern_conv_finish(p, at, sums, KERN_CONV_LANES);
	}
	kern_conv_sum_rest(sums, p, at, p->channels - at);
	kern_conv_finish(p, at, sums, p->channels - at);
}

// The pass of result i.
static struct kern_conv_pass kern_conv_forward(const struct kern_conv *c, int64_t i) {
	bool edge = i < c->edges;
	return (struct kern_conv_pass){
		.x = edge ? c->edge + (c->b + i) * c->channels : kern_conv_token(c, c->x, i), .weights = c->weights, .offsets = c->offsets,
		.stride = -c->p.step * (edge ? c->channels : (int64_t)(c->x->nb[1] / sizeof(float))), .channels = c->channels,
		.taps = kern_conv_reach(c, i), .silu = c->p.silu,
	};
}

KERN_OP(short_convolution) {
	(void)userdata;
	(void)ith;
	struct kern_conv c = kern_conv_of(dst, dst->src[0], dst->src[1]);
	int64_t blocks = kern_conv_blocks(&c), spans = kern_ceil_div(c.n, KERN_CONV_TOKENS);
	for (int64_t chunk; (chunk = kern_next_chunk(dst, blocks * spans * c.x->ne[2], nth)) >= 0;) {
		int64_t span = chunk / blocks % spans, last = kern_min(c.n, (span + 1) * KERN_CONV_TOKENS);
		int64_t first = span * KERN_CONV_TOKENS;
		kern_conv_select(&c, chunk / blocks / spans, chunk % blocks, first, last);
		for (int64_t i = first; i < last; i++) {
			struct kern_conv_pass p = kern_conv_forward(&c, i);
			p.y = kern_conv_token(&c, dst, i);
			kern_conv_run(&p);
		}
	}
}

// Computes the gradients of the sums of results from `first` on, before the activation, one token after another.
static float *kern_conv_sum_grads(const struct kern_conv *c, const struct ggml_tensor *dy, int64_t first, int64_t last) {
	float *grads = kern_scratch(KERN_SCRATCH_ACCUMULATOR, kern_max(last - first, 0) * c->channels * sizeof *grads);
	for (int64_t i = first; i < last; i++) {
		float *to = grads + (i - first) * c->channels;
		const float *d = kern_conv_token(c, dy, i);
		if (c->p.silu) {
			struct kern_conv_pass p = kern_conv_forward(c, i);
			p.y = to;
			p.dy = d;
			kern_conv_run(&p);
		} else {
			memcpy(to, d, c->channels * sizeof *to);
		}
	}
	return grads;
}

// Adds up what token u of x gives to the results u + j·step that reach back to it: neighbours, in whole samples.
static void kern_conv_token_grad(const struct kern_conv *c, float *dx, int64_t u, const float *grads, int64_t first, int64_t last) {
	int64_t step = c->p.step, j = 0;
	struct kern_conv_pass p = {.y = dx, .channels = c->channels, .stride = step * c->channels};
	do {
		int64_t end = j;
		while (end < c->taps && u + end * step < last && end < kern_conv_reach(c, u + end * step)) {
			end++;
		}
		if (end > j || p.offsets == NULL) {
			p.taps = end - j;
			p.x = grads + (u + j * step - first) * c->channels;
			p.weights = c->weights + j * c->channels;
			kern_conv_run(&p);
			p.offsets = dx;
		}
		j = end + 1;
	} while (j < c->taps);
}

KERN_OP(short_convolution_grad) {
	(void)userdata;
	(void)ith;
	const struct ggml_tensor *dy = dst->src[0];
	struct kern_conv c = kern_conv_of(dst, dst->src[1], dst->src[2]);
	int64_t blocks = kern_conv_blocks(&c), spans = kern_ceil_div(c.n, KERN_CONV_TOKENS);
	for (int64_t chunk; (chunk = kern_next_chunk(dst, blocks * spans * c.x->ne[2], nth)) >= 0;) {
		int64_t from = chunk / blocks % spans * KERN_CONV_TOKENS, to = kern_min(c.n, from + KERN_CONV_TOKENS);
		int64_t last = kern_min(c.n, to + c.distance);
		kern_conv_select(&c, chunk / blocks / spans, chunk % blocks, from, last);
		const float *grads = kern_conv_sum_grads(&c, dy, from, last);
		for (int64_t u = from; u < to; u++) {
			kern_conv_token_grad(&c, kern_conv_token(&c, dst, u), u, grads, from, last);
		}
	}
}
