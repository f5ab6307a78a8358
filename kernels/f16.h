// Conversions between F32 and F16, and the scaling for GEMM in F16.
#ifndef KERN_F16_H
#define KERN_F16_H

#include <ggml.h>
#include <stdbool.h>
#include <stdint.h>

// Sets the CPU plugin's conversions, which use instructions that the base library lacks; NULL keeps
// the base library's.
void kern_f16_open(ggml_to_float_t to_float, ggml_from_float_t from_float);

ggml_to_float_t kern_f16_to_f32(void);
ggml_from_float_t kern_f32_to_f16(void);

// Converts n columns of m elements, each scaled by the power of two that moves its largest element
// into [4, 8), and stores the inverse scales.
void kern_scale_to_f16(const float *from, int64_t ld_from, uint16_t *to, int64_t ld_to, float *inv_scale, int64_t m, int64_t n);

// Multiplies columns of products, without padding, by the inverse scales and stores them to c, or
// adds them with accumulate. Stops at the first column with an infinity or NaN, and returns the
// number of columns before it.
int64_t kern_unscale_f16(const uint16_t *from, const float *inv_scale, float *c, int64_t ldc, int64_t m, int64_t n, bool accumulate);

#endif
