// Dot products of quantised rows by instructions of AVX512-VNNI. The library's take so many instructions a block that
// they, and not memory, set the pace; these take half as many, and fewer still for each further column.
#ifndef GOGGML_DOTS_H
#define GOGGML_DOTS_H

#include <ggml.h>
#include <stdint.h>

struct goggml_dots {
	// Bytes of a column of k elements. Of the pieces of a column all but the last are of multiples of 256 elements.
	size_t (*column_size)(int64_t k);
	// Rounds k elements, in whole blocks, as the library does, and lays them out as the product takes them.
	void (*lay_out)(const float *x, void *column, int64_t k);
	// Adds the products of a row with n columns, which lie so many bytes apart, to sums that lie so many floats apart.
	void (*add)(float *y, int64_t apart, int64_t k, const void *row, const char *columns, size_t distance, int64_t n);
};

// NULL where there are none: for other types, and on other processors.
const struct goggml_dots *goggml_dots_of(enum ggml_type type);

#endif
