#include "elementwise.h"
#include "vector.h"

#include <string.h>

// Elements per step of a vectorised loop; a step belongs to one thread.
enum { KERN_ELEMENTS_STEP = 64 };

// Rounds the bits of a float.
static inline uint16_t kern_bf16(uint32_t bits) {
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

KERN_CLONES static void kern_round_bf16_clones(const float *from, uint16_t *to, int64_t n) {
	uint32_t bits[KERN_ELEMENTS_STEP];
	for (; n >= KERN_ELEMENTS_STEP; n -= KERN_ELEMENTS_STEP, from += KERN_ELEMENTS_STEP, to += KERN_ELEMENTS_STEP) {
		memcpy(bits, from, sizeof bits);
		for (int i = 0; i < KERN_ELEMENTS_STEP; i++) {
			to[i] = kern_bf16(bits[i]);
		}
	}
	memcpy(bits, from, n * sizeof *bits);
	for (int64_t i = 0; i < n; i++) {
		to[i] = kern_bf16(bits[i]);
	}
}

#if defined(__x86_64__)

#include <immintrin.h>

// This instruction takes subnormal numbers for 0.
__attribute__((target("avx512f,avx512bw,avx512bf16"))) static int64_t kern_round_bf16_vectors(const float *from, uint16_t *to, int64_t n) {
	enum { VECTOR = 16 };
	int64_t i = 0;
	for (; i + 2 * VECTOR <= n; i += 2 * VECTOR) {
		__m512bh x = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + VECTOR), _mm512_loadu_ps(from + i));
		_mm512_storeu_si512(to + i, (__m512i)x);
	}
	return i;
}

void kern_round_bf16(const float *from, uint16_t *to, int64_t n) {
	int64_t done = __builtin_cpu_supports("avx512bf16") ? kern_round_bf16_vectors(from, to, n) : 0;
	kern_round_bf16_clones(from + done, to + done, n - done);
}

#else

void kern_round_bf16(const float *from, uint16_t *to, int64_t n) { kern_round_bf16_clones(from, to, n); }

#endif

struct kern_share kern_share_of(int64_t n, int ith, int nth) {
	int64_t steps = kern_ceil_div(n, KERN_ELEMENTS_STEP), to = steps * (ith + 1) / nth * KERN_ELEMENTS_STEP;
	return (struct kern_share){steps * ith / nth * KERN_ELEMENTS_STEP, kern_min(to, n)};
}

KERN_OP(cast_bf16) {
	(void)userdata;
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	kern_round_bf16((const float *)dst->src[0]->data + s.from, (uint16_t *)dst->data + s.from, s.to - s.from);
}

enum { KERN_GLU_STEP = 32 };

// The activations of gates are x·σ(z(x)).
struct kern_gate {
	float z, change; // z(x), and x·z'(x)
};
typedef struct kern_gate kern_gate_of(float x);

// silu: z = x.
static inline struct kern_gate kern_silu(float x) { return (struct kern_gate){x, x}; }

// tanh approximation of gelu: z = √(8/π)·(x + 0.044715·x³), because ½(1 + tanh(u)) is σ(2u). Beyond
// ±10, σ is 0 or 1 in F32, and powers of x would overflow.
static const float kern_gelu_root = 1.5957691216f, kern_gelu_cube = 0.044715f;

static inline float kern_gelu_exponent(float x, float square) { return kern_gelu_root * x * (1 + kern_gelu_cube * square); }

static inline struct kern_gate kern_gelu(float x) {
	x = kern_select(x > 10, 10, x);
	x = kern_select(x < -10, -10, x);
	float square = x * x;
	return (struct kern_gate){kern_gelu_exponent(x, square), kern_gelu_root * x * (1 + 3 * kern_gelu_cube * square)};
}

// Rounds to the 11 significant bits of F16, ties to even.
static inline float kern_round_11_bits(float x) {
	union { float f; uint32_t bits; } value = {x};
	value.bits = (value.bits + 0xfff + (value.bits >> 13 & 1)) & ~(uint32_t)0x1fff;
	return value.f;
}

// gelu as in the table of ggml's CPU backend: argument and result are F16, with 0 and x itself
// beyond ±10. Below 2^-14, F16 numbers are multiples of 2^-24.
__attribute__((always_inline)) static inline float kern_gelu_f16(float x) {
	float near = kern_select(x < 10, x, 10);
	near = kern_select(near > -10, near, -10);
	near = kern_round_11_bits(near);
	float y = near * kern_sigmoid(kern_gelu_exponent(near, near * near));
	float small = (y + 0.75f) - 0.75f, large = kern_round_11_bits(y);
	y = kern_select(fabsf(y) < 0x1p-14f, small, large);
	return kern_select(x < 10, y, x); // NaN stays NaN
}

__attribute__((always_inline)) static inline void kern_geglu_step(float *restrict y, const float *restrict gate, const float *restrict up) {
	for (int i = 0; i < KERN_GLU_STEP; i++) {
		y[i] = kern_gelu_f16(gate[i]) * up[i];
	}
}

KERN_CLONES static void kern_geglu(float *restrict y, const float *restrict gate, const float *restrict up, int64_t n) {
	for (; n >= KERN_GLU_STEP; n -= KERN_GLU_STEP, y += KERN_GLU_STEP, gate += KERN_GLU_STEP, up += KERN_GLU_STEP) {
		kern_geglu_step(y, gate, up);
	}
	float rest[3][KERN_GLU_STEP] = {0};
	memcpy(rest[1], gate, n * sizeof *gate);
	memcpy(rest[2], up, n * sizeof *up);
	kern_geglu_step(rest[0], rest[1], rest[2]);
	memcpy(y, rest[0], n * sizeof *y);
}

KERN_OP(geglu) {
	(void)userdata;
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	const float *gate = dst->src[0]->data, *up = dst->src[1]->data;
	kern_geglu((float *)dst->data + s.from, gate + s.from, up + s.from, s.to - s.from);
}

__attribute__((always_inline)) static inline void kern_glu_grad_step(kern_gate_of gate_of, float *up, const float *gate, const float *dy) {
	for (int i = 0; i < KERN_GLU_STEP; i++) {
		struct kern_gate g = gate_of(gate[i]);
		up[i] *= dy[i] * kern_gate_slope(g.z, g.change);
	}
}

__attribute__((always_inline)) static inline void kern_glu_grad(kern_gate_of gate_of, float *restrict up, const float *restrict gate,
		const float *restrict dy, int64_t n) {
	for (; n >= KERN_GLU_STEP; n -= KERN_GLU_STEP, up += KERN_GLU_STEP, gate += KERN_GLU_STEP, dy += KERN_GLU_STEP) {
		kern_glu_grad_step(gate_of, up, gate, dy);
	}
	float rest[3][KERN_GLU_STEP] = {0};
	memcpy(rest[0], up, n * sizeof *up);
	memcpy(rest[1], gate, n * sizeof *gate);
	memcpy(rest[2], dy, n * sizeof *dy);
	kern_glu_grad_step(gate_of, rest[0], rest[1], rest[2]);
	memcpy(up, rest[0], n * sizeof *up);
}

// Inlining the activation into each function lets the compiler vectorise the loop.
KERN_CLONES static void kern_swiglu_grad(float *up, const float *gate, const float *dy, int64_t n) { kern_glu_grad(kern_silu, up, gate, dy, n); }
KERN_CLONES static void kern_geglu_grad(float *up, const float *gate, const float *dy, int64_t n) { kern_glu_grad(kern_gelu, up, gate, dy, n); }

typedef void kern_grad(float *up, const float *gate, const float *dy, int64_t n);

static void kern_glu_grad_share(struct ggml_tensor *dst, int ith, int nth, kern_grad grad) {
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	const float *gate = dst->src[1]->data, *dy = dst->src[2]->data;
	grad((float *)dst->data + s.from, gate + s.from, dy + s.from, s.to - s.from);
}

KERN_OP(swiglu_grad) { (void)userdata; kern_glu_grad_share(dst, ith, nth, kern_swiglu_grad); }
KERN_OP(geglu_grad) { (void)userdata; kern_glu_grad_share(dst, ith, nth, kern_geglu_grad); }
