//go:build ignore

#include "halves.h"
#include "threads.h"
#include "vector.h"

#include <ggml-backend.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

// The CPU plugin's conversions use instructions that the base library's do not.
static struct {
	ggml_to_float_t to_float;
	ggml_from_float_t from_float;
} goggml_f16;

static void goggml_find_f16(void) {
	ggml_backend_reg_t cpu = ggml_backend_reg_by_name("CPU");
	goggml_f16.to_float = cpu ? (ggml_to_float_t)goggml_reg_symbol(cpu, "ggml_cpu_fp16_to_fp32") : NULL;
	goggml_f16.from_float = cpu ? (ggml_from_float_t)goggml_reg_symbol(cpu, "ggml_cpu_fp32_to_fp16") : NULL;
	if (goggml_f16.to_float == NULL) {
		goggml_f16.to_float = ggml_get_type_traits(GGML_TYPE_F16)->to_float;
	}
	if (goggml_f16.from_float == NULL) {
		goggml_f16.from_float = ggml_get_type_traits(GGML_TYPE_F16)->from_float_ref;
	}
}

static void goggml_need_f16(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, goggml_find_f16);
}

ggml_to_float_t goggml_f16_to_float(void) {
	goggml_need_f16();
	return goggml_f16.to_float;
}

ggml_from_float_t goggml_float_to_f16(void) {
	goggml_need_f16();
	return goggml_f16.from_float;
}

// Elements that are converted at a time, and of which loops become vector instructions.
enum { HALVES = 256, HALVES_STEP = 64 };

static inline uint32_t goggml_larger(uint32_t bits, uint32_t most) {
	uint32_t magnitude = bits & 0x7fffffff;
	return magnitude > most ? magnitude : most;
}

// The exponent of the largest of n elements, as a float has it.
GOGGML_CLONES static int goggml_largest_exponent(const float *x, int64_t n) {
	enum { MANTISSA = 23 };
	uint32_t bits[HALVES_STEP], most[HALVES_STEP] = {0}, largest = 0;
	for (; n >= HALVES_STEP; n -= HALVES_STEP, x += HALVES_STEP) {
		memcpy(bits, x, sizeof bits);
		for (int i = 0; i < HALVES_STEP; i++) { most[i] = goggml_larger(bits[i], most[i]); }
	}
	memcpy(bits, x, n * sizeof *bits);
	for (int64_t i = 0; i < n; i++) { most[i] = goggml_larger(bits[i], most[i]); }
	for (int i = 0; i < HALVES_STEP; i++) { largest = goggml_larger(most[i], largest); }
	return (int)(largest >> MANTISSA);
}

GOGGML_CLONES static void goggml_scale_floats(const float *restrict from, float factor, float *restrict to, int64_t n) {
	for (; n >= HALVES_STEP; n -= HALVES_STEP, from += HALVES_STEP, to += HALVES_STEP) {
		for (int i = 0; i < HALVES_STEP; i++) { to[i] = factor * from[i]; }
	}
	for (int64_t i = 0; i < n; i++) { to[i] = factor * from[i]; }
}

GOGGML_CLONES static void goggml_add_multiple(const float *restrict from, float factor, float *restrict to, int64_t n) {
	for (; n >= HALVES_STEP; n -= HALVES_STEP, from += HALVES_STEP, to += HALVES_STEP) {
		for (int i = 0; i < HALVES_STEP; i++) { to[i] += factor * from[i]; }
	}
	for (int64_t i = 0; i < n; i++) { to[i] += factor * from[i]; }
}

// Tells whether none of n elements is an infinity or a NaN.
GOGGML_CLONES static bool goggml_finite(const uint16_t *x, int64_t n) {
	uint16_t special[HALVES_STEP] = {0}, any = 0;
	for (; n >= HALVES_STEP; n -= HALVES_STEP, x += HALVES_STEP) {
		for (int i = 0; i < HALVES_STEP; i++) { special[i] |= (x[i] & 0x7c00) + 0x0400; }
	}
	for (int64_t i = 0; i < n; i++) { special[i] |= (x[i] & 0x7c00) + 0x0400; }
	for (int i = 0; i < HALVES_STEP; i++) { any |= special[i]; }
	return any < 0x8000;
}

static float goggml_power_of_two(int e) {
	union { uint32_t bits; float f; } power = {(uint32_t)(e + 127) << 23};
	return power.f;
}

// Between these, the factor and its inverse are normal numbers.
enum { LEAST_EXPONENT = 5, MOST_EXPONENT = 254, EXPONENT_OF_4 = 129 };

void goggml_scale_to_f16(const float *from, int64_t stride, uint16_t *to, int64_t distance, float *undo, int64_t rows, int64_t columns) {
	enum { ROWS_FETCHED = 4 };
	ggml_from_float_t convert = goggml_float_to_f16();
	float scaled[HALVES];
	for (int64_t row = 0; row < rows; row++, from += stride, to += distance) {
		goggml_fetch((const char *)(from + ROWS_FETCHED * stride), columns * sizeof *from);
		int e = goggml_largest_exponent(from, columns);
		e = e < LEAST_EXPONENT ? LEAST_EXPONENT : e > MOST_EXPONENT ? MOST_EXPONENT : e;
		for (int64_t i = 0; i < columns; i += HALVES) {
			int64_t n = columns - i < HALVES ? columns - i : HALVES;
			goggml_scale_floats(from + i, goggml_power_of_two(EXPONENT_OF_4 - e), scaled, n);
			convert(scaled, to + i, n);
		}
		undo[row] = goggml_power_of_two(e - EXPONENT_OF_4);
	}
}

int64_t goggml_sum_f16(const uint16_t *from, const float *undo, float *to, int64_t stride, int64_t rows, int64_t columns, bool add) {
	ggml_to_float_t convert = goggml_f16_to_float();
	float products[HALVES];
	for (int64_t row = 0; row < rows; row++, from += columns, to += stride) {
		if (!goggml_finite(from, columns)) {
			return row;
		}
		for (int64_t i = 0; i < columns; i += HALVES) {
			int64_t n = columns - i < HALVES ? columns - i : HALVES;
			convert(from + i, products, n);
			if (add) {
				goggml_add_multiple(products, undo[row], to + i, n);
			} else {
				goggml_scale_floats(products, undo[row], to + i, n);
			}
		}
	}
	return rows;
}
