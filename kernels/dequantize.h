// Conversions of weights to F32 and BF16 in one pass, by special instructions of some processors.
#ifndef KERN_DEQUANTIZE_H
#define KERN_DEQUANTIZE_H

#include <ggml.h>
#include <stdint.h>

// Converts n elements: whole blocks of a quantised type.
typedef void (*kern_to_bf16_t)(const void *from, uint16_t *to, int64_t n);

// Returns NULL if there is none: for rare types, and on other processors.
kern_to_bf16_t kern_vector_to_bf16(enum ggml_type type);
ggml_to_float_t kern_vector_to_f32(enum ggml_type type);

// The conversions with AVX2, of types for which ggml uses no vectors.
ggml_to_float_t kern_avx2_to_f32(enum ggml_type type);

#endif
