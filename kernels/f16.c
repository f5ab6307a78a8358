#include "f16.h"
#include "vector.h"

#include <string.h>

static struct {
	ggml_to_float_t to_float;
	ggml_from_float_t from_float;
} kern_f16;

void kern_f16_open(ggml_to_float_t to_float, ggml_from_float_t from_float) {
	kern_f16.to_float = to_float != NULL ? to_float : ggml_get_type_traits(GGML_TYPE_F16)->to_float;
	kern_f16.from_float = from_float != NULL ? from_float : ggml_get_type_traits(GGML_TYPE_F16)->from_float_ref;
}

ggml_to_float_t kern_f16_to_f32(void) { return kern_f16.to_float; }
ggml_from_float_t kern_f32_to_f16(void) { return kern_f16.from_float; }

// Elements converted at a time, and per step of a vectorised loop.
enum { KERN_F16_BLOCK = 256, KERN_F16_STEP = 64 };

static inline uint32_t kern_larger_magnitude(uint32_t bits, uint32_t most) {
	uint32_t magnitude = bits & 0x7fffffff;
	return magnitude > most ? magnitude : most;
}

// Returns the exponent bits of the largest of n elements.
KERN_CLONES static int kern_largest_exponent(const float *x, int64_t n) {
	enum { MANTISSA = 23 };
	uint32_t bits[KERN_F16_STEP], most[KERN_F16_STEP] = {0}, largest = 0;
	for (; n >= KERN_F16_STEP; n -= KERN_F16_STEP, x += KERN_F16_STEP) {
		memcpy(bits, x, sizeof bits);
		for (int i = 0; i < KERN_F16_STEP; i++) { most[i] = kern_larger_magnitude(bits[i], most[i]); }
	}
	memcpy(bits, x, n * sizeof *bits);
	for (int64_t i = 0; i < n; i++) { most[i] = kern_larger_magnitude(bits[i], most[i]); }
	for (int i = 0; i < KERN_F16_STEP; i++) { largest = kern_larger_magnitude(most[i], largest); }
	return (int)(largest >> MANTISSA);
}

KERN_CLONES static void kern_scale(const float *restrict from, float factor, float *restrict to, int64_t n) {
	for (; n >= KERN_F16_STEP; n -= KERN_F16_STEP, from += KERN_F16_STEP, to += KERN_F16_STEP) {
		for (int i = 0; i < KERN_F16_STEP; i++) { to[i] = factor * from[i]; }
	}
	for (int64_t i = 0; i < n; i++) { to[i] = factor * from[i]; }
}

KERN_CLONES static void kern_axpy(const float *restrict from, float factor, float *restrict to, int64_t n) {
	for (; n >= KERN_F16_STEP; n -= KERN_F16_STEP, from += KERN_F16_STEP, to += KERN_F16_STEP) {
		for (int i = 0; i < KERN_F16_STEP; i++) { to[i] += factor * from[i]; }
	}
	for (int64_t i = 0; i < n; i++) { to[i] += factor * from[i]; }
}

// Reports whether none of n elements is an infinity or a NaN.
KERN_CLONES static bool kern_is_finite(const uint16_t *x, int64_t n) {
	uint16_t special[KERN_F16_STEP] = {0}, any = 0;
	for (; n >= KERN_F16_STEP; n -= KERN_F16_STEP, x += KERN_F16_STEP) {
		for (int i = 0; i < KERN_F16_STEP; i++) { special[i] |= (x[i] & 0x7c00) + 0x0400; }
	}
	for (int64_t i = 0; i < n; i++) { special[i] |= (x[i] & 0x7c00) + 0x0400; }
	for (int i = 0; i < KERN_F16_STEP; i++) { any |= special[i]; }
	return any < 0x8000;
}

static float kern_power_of_two(int e) {
	union { uint32_t bits; float f; } power = {(uint32_t)(e + 127) << 23};
	return power.f;
}

// Between these exponents, the scale and its inverse are normal numbers.
enum { KERN_LEAST_EXPONENT = 5, KERN_MOST_EXPONENT = 254, KERN_EXPONENT_OF_4 = 129 };

void kern_scale_to_f16(const float *from, int64_t ld_from, uint16_t *to, int64_t ld_to, float *inv_scale, int64_t m, int64_t n) {
	enum { PREFETCH_COLUMNS = 4 };
	float scaled[KERN_F16_BLOCK];
	for (int64_t column = 0; column < n; column++, from += ld_from, to += ld_to) {
		kern_prefetch((const char *)(from + PREFETCH_COLUMNS * ld_from), m * sizeof *from);
		int e = kern_largest_exponent(from, m);
		e = e < KERN_LEAST_EXPONENT ? KERN_LEAST_EXPONENT : e > KERN_MOST_EXPONENT ? KERN_MOST_EXPONENT : e;
		for (int64_t i = 0; i < m; i += KERN_F16_BLOCK) {
			int64_t size = m - i < KERN_F16_BLOCK ? m - i : KERN_F16_BLOCK;
			kern_scale(from + i, kern_power_of_two(KERN_EXPONENT_OF_4 - e), scaled, size);
			kern_f16.from_float(scaled, to + i, size);
		}
		inv_scale[column] = kern_power_of_two(e - KERN_EXPONENT_OF_4);
	}
}

int64_t kern_unscale_f16(const uint16_t *from, const float *inv_scale, float *c, int64_t ldc, int64_t m, int64_t n, bool accumulate) {
	float products[KERN_F16_BLOCK];
	for (int64_t column = 0; column < n; column++, from += m, c += ldc) {
		if (!kern_is_finite(from, m)) {
			return column;
		}
		for (int64_t i = 0; i < m; i += KERN_F16_BLOCK) {
			int64_t size = m - i < KERN_F16_BLOCK ? m - i : KERN_F16_BLOCK;
			kern_f16.to_float(from + i, products, size);
			if (accumulate) {
				kern_axpy(products, inv_scale[column], c + i, size);
			} else {
				kern_scale(products, inv_scale[column], c + i, size);
			}
		}
	}
	return n;
}
