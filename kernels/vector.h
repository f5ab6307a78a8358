// Helpers for loops that the compiler vectorises.
#ifndef KERN_VECTOR_H
#define KERN_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Compiles a function for several kinds of processors; the C library chooses the fastest at start
// if it can (ifunc). Loops of a fixed length become vector instructions. KERN_NO_AVX512 holds them back, for comparisons.
#if defined(KERN_NO_AVX512)
#define KERN_CLONES __attribute__((target("arch=x86-64-v3")))
#elif defined(__x86_64__) && defined(__GLIBC__)
#define KERN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KERN_CLONES
#endif

// Vectors of 16 floats, which stay in registers where loops over them are unrolled: aligned ones, and those anywhere in memory.
enum { KERN_LANES = 16 };
typedef float kern_lanes __attribute__((vector_size(4 * KERN_LANES)));
typedef float kern_lanes_anywhere __attribute__((vector_size(4 * KERN_LANES), aligned(4)));

// The sum of all lanes, added in pairs within registers.
__attribute__((always_inline)) static inline float kern_sum_lanes(const kern_lanes *x) {
	typedef float lanes8 __attribute__((vector_size(32)));
	typedef float lanes4 __attribute__((vector_size(16)));
	union { kern_lanes all; lanes8 half[2]; } by8 = {*x};
	union { lanes8 all; lanes4 half[2]; } by4 = {by8.half[0] + by8.half[1]};
	lanes4 sum = by4.half[0] + by4.half[1];
	return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Runs statements for each i < n, in steps of a fixed length. The compiler vectorises only loops whose counter begins at 0.
#define KERN_EACH(i, n, ...)                                         \
	{                                                                \
		int64_t i = 0;                                               \
		while (i + KERN_LANES <= (n)) {                              \
			for (int step = 0; step < KERN_LANES; step++, i++) {     \
				__VA_ARGS__;                                         \
			}                                                        \
		}                                                            \
		for (; i < (n); i++) {                                       \
			__VA_ARGS__;                                             \
		}                                                            \
	}

// Prefetches memory that will soon be read. Always inlined: GCC would otherwise drop calls of a
// function without visible effects.
__attribute__((always_inline)) static inline void kern_prefetch(const char *from, size_t size) {
	enum { CACHE_LINE = 64 };
	for (size_t i = 0; i < size; i += CACHE_LINE) {
		__builtin_prefetch(from + i);
	}
}

// Returns the float whose upper half is bits.
static inline float kern_from_bf16(uint16_t bits) {
	union { uint32_t bits; float f; } value = {(uint32_t)bits << 16};
	return value.f;
}

// One of two numbers. A choice with a constant would become a branch, with which GCC vectorises no loop for AVX2.
__attribute__((always_inline)) static inline float kern_select(bool first, float a, float b) {
	union { float f; uint32_t bits; } x = {a}, y = {b};
	uint32_t mask = -(uint32_t)first;
	x.bits = (x.bits & mask) | (y.bits & ~mask);
	return x.f;
}

// For x ≤ 0, e^x is 2^n, by the bits of a float, times 1 + f·slope = 2^f for |f| ≤ 1/2, by a
// polynomial. Flushes to 2^-126; NaN stays NaN.
struct kern_exponential {
	float power, f, slope;
};

__attribute__((always_inline)) static inline struct kern_exponential kern_exponential(float x) {
	float z = x * 1.44269504f;
	z = kern_select(z < -126.0f, -126.0f, z);
	union { float f; uint32_t bits; } power = {z + 12582912.0f}; // its lowest bits are the nearest integer
	float f = z - (power.f - 12582912.0f);
	power.bits = (power.bits + 127) << 23;
	float p = 1.5403530e-4f;
	p = p * f + 1.3333558e-3f;
	p = p * f + 9.6181291e-3f;
	p = p * f + 5.5504109e-2f;
	p = p * f + 2.4022651e-1f;
	p = p * f + 6.9314718e-1f;
	return (struct kern_exponential){power.f, f, p};
}

// e^x for x ≤ 0.
static inline float kern_exp(float x) {
	struct kern_exponential e = kern_exponential(x);
	return (e.slope * e.f + 1.0f) * e.power;
}

__attribute__((always_inline)) static inline float kern_sigmoid(float z) {
	float e = kern_exp(-fabsf(z));
	return kern_select(z < 0, e, 1) / (1 + e);
}

// The slope σ(z)·(1 + x·z'·σ(−z)) of x·σ(z), given z and x·z', by one exponential.
__attribute__((always_inline)) static inline float kern_gate_slope(float z, float change) {
	float e = kern_exp(-fabsf(z)), more = 1 / (1 + e), less = e * more; // σ(|z|) and σ(−|z|)
	return kern_select(z < 0, less * (1 + change * more), more * (1 + change * less));
}

// tanh(x) = −m / (2 + m), with m = e^(−2|x|) − 1, which is accurate for small x.
static inline float kern_tanh(float x) {
	struct kern_exponential e = kern_exponential(-2.0f * fabsf(x));
	float m = e.slope * e.f * e.power + (e.power - 1.0f);
	return copysignf(-m / (2.0f + m), x);
}

// √x, to two units in the last place if x is zero or at least 2^-126: Newton's method on 1/√x, from
// the bits of a float. The compiler does not vectorise sqrtf, which may set errno. Negative and
// infinite numbers and NaN give NaN.
static inline float kern_sqrt(float x) {
	union { float f; uint32_t bits; } start = {x};
	start.bits = 0x5f3759df - (start.bits >> 1);
	float r = start.f, half = 0.5f * x;
	r *= 1.5f - half * r * r;
	r *= 1.5f - half * r * r;
	r *= 1.5f - half * r * r;
	return kern_select((x >= 0) & (x <= 3.4e38f), x * r, NAN);
}

#endif
