// Which layouts of their operands ops take on the CPU.
#ifndef GOGGML_LAYOUT_H
#define GOGGML_LAYOUT_H

#include "guard.h"

// From the loosest to the strictest; op_check.go demands the same.
enum goggml_layout {
	GOGGML_ANY_LAYOUT,
	GOGGML_CONTIGUOUS_ROWS,    // the elements of a row are adjacent
	GOGGML_UNIFORM_ROW_STRIDE, // and all rows at multiples of the second stride
	GOGGML_CONTIGUOUS,         // no gaps, no permutation; dimensions of size 1 may have any stride
	GOGGML_CANONICAL_STRIDES,  // the strides of a new tensor, also in dimensions of size 1
};

bool goggml_has_layout(const struct ggml_tensor *t, enum goggml_layout layout);
// Reports whether the op of a node takes a source in its present layout.
bool goggml_takes_layout(const struct ggml_tensor *node, int source);

#endif
