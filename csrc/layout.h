// The layouts of operands that CPU ops support.
#ifndef GOGGML_LAYOUT_H
#define GOGGML_LAYOUT_H

#include "guard.h"

// From the loosest to the strictest, as in op_check.go.
enum goggml_layout {
	GOGGML_ANY_LAYOUT,
	GOGGML_CONTIGUOUS_ROWS,    // the elements of a row are adjacent
	GOGGML_UNIFORM_ROW_STRIDE, // and all rows at multiples of stride 1
	GOGGML_CONTIGUOUS,         // no gaps, no permutation; dimensions of size 1 may have any stride
	GOGGML_CANONICAL_STRIDES,  // the strides of a new tensor, including dimensions of size 1
};

bool goggml_has_layout(const struct ggml_tensor *t, enum goggml_layout layout);
// Reports whether the op of a node supports the current layout of a source.
bool goggml_takes_layout(const struct ggml_tensor *node, int source);

#endif
