// Conversions of weights to BF16 in one pass, by the instructions that some processors have for it.
#ifndef GOGGML_TO_BF16_H
#define GOGGML_TO_BF16_H

#include <ggml.h>
#include <stdint.h>

// Converts n elements: whole blocks of a quantised type.
typedef void (*goggml_to_bf16_t)(const void *from, uint16_t *to, int64_t n);

// NULL where there is none: for rare types, and on other processors.
goggml_to_bf16_t goggml_to_bf16(enum ggml_type type);

#endif
