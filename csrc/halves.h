// Conversions between F32 and F16, and what products that are added up in F16 need of them.
#ifndef GOGGML_HALVES_H
#define GOGGML_HALVES_H

#include <ggml.h>
#include <stdbool.h>
#include <stdint.h>

// The fastest there are.
ggml_to_float_t goggml_f16_to_float(void);
ggml_from_float_t goggml_float_to_f16(void);

// Converts rows of columns elements, each row multiplied by a power of two that lets its largest element be from 4 to 8,
// and stores what undoes that. The first stride is of from, the second of to.
void goggml_scale_to_f16(const float *from, int64_t stride, uint16_t *to, int64_t distance, float *undo, int64_t rows, int64_t columns);

// Puts rows of products into sums, multiplied by what each has in undo; add tells whether to add them. Returns how many
// rows came before the first with an infinity or a NaN, which is left out like those after it.
int64_t goggml_sum_f16(const uint16_t *from, const float *undo, float *to, int64_t stride, int64_t rows, int64_t columns, bool add);

#endif
