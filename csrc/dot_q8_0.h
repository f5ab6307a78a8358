// Dot products of rows in Q8_0 by instructions of AVX512-VNNI. The library's take so many instructions a block that
// they, and not memory, set the pace; these take half as long.
#ifndef GOGGML_DOT_Q8_0_H
#define GOGGML_DOT_Q8_0_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Tells whether the processor has the instructions: without them nothing else here may be called.
bool goggml_has_dot_q8_0(void);
// Bytes of a column of k elements. Of the pieces of a column all but the last are of multiples of 256 elements.
size_t goggml_column_size_q8_0(int64_t k);
// Rounds k elements as the library does, and lays them out as the product takes them. k counts whole blocks.
void goggml_column_q8_0(const float *x, void *column, int64_t k);
// Adds the products of a row with n columns, which lie so many bytes apart, to sums that lie so many floats apart.
void goggml_add_dots_q8_0(float *y, int64_t apart, int64_t k, const void *row, const char *columns, size_t distance, int64_t n);

#endif
