// Vector instructions of the width that the processor has, and what loops with them need.
#ifndef GOGGML_VECTOR_H
#define GOGGML_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

// Compiles a function for several kinds of processors; where the C library can
// choose between them at start, it takes the fastest. Loops of a fixed length
// become vector instructions.
#if defined(__x86_64__) && defined(__GLIBC__)
#define GOGGML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GOGGML_CLONES
#endif

// Asks for memory that will soon be read. Where GCC did not inline it, it would leave out calls of it: a function that
// does nothing else has no effect to it.
__attribute__((always_inline)) static inline void goggml_fetch(const char *from, size_t size) {
	enum { CACHE_LINE = 64 };
	for (size_t i = 0; i < size; i += CACHE_LINE) {
		__builtin_prefetch(from + i);
	}
}

// The float of which bits are the upper half.
static inline float goggml_from_bf16(uint16_t bits) {
	union { uint32_t bits; float f; } value = {(uint32_t)bits << 16};
	return value.f;
}

// e^x for x ≤ 0: 2^n by the bits of a float, times 2^f for |f| ≤ 1/2 by a polynomial. What would be below 2^-126 is
// that; a NaN stays one.
static inline float goggml_exp(float x) {
	float z = x * 1.44269504f;
	z = z < -126.0f ? -126.0f : z;
	union { float f; uint32_t bits; } power = {z + 12582912.0f}; // whose lowest bits are the nearest integer
	float f = z - (power.f - 12582912.0f);
	power.bits = (power.bits + 127) << 23;
	float p = 1.5403530e-4f;
	p = p * f + 1.3333558e-3f;
	p = p * f + 9.6181291e-3f;
	p = p * f + 5.5504109e-2f;
	p = p * f + 2.4022651e-1f;
	p = p * f + 6.9314718e-1f;
	p = p * f + 1.0f;
	return p * power.f;
}

// √x, to two units in the last place where x is zero or at least 2^-126: Newton's
// method on 1/√x, from the bits of a float. The compiler makes no vector
// instructions of sqrtf, which may set errno. What is negative, infinite or no
// number becomes a NaN.
static inline float goggml_sqrt(float x) {
	union { float f; uint32_t bits; } start = {x};
	start.bits = 0x5f3759df - (start.bits >> 1);
	float r = start.f, half = 0.5f * x;
	r *= 1.5f - half * r * r;
	r *= 1.5f - half * r * r;
	r *= 1.5f - half * r * r;
	return x >= 0 && x <= 3.4e38f ? x * r : NAN;
}

#endif
