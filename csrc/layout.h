// Which layouts of their operands ops take on the CPU.
#ifndef GOGGML_LAYOUT_H
#define GOGGML_LAYOUT_H

#include "arena.h"

enum goggml_layout {
	GOGGML_ANY,
	GOGGML_ROWS,      // the elements of a row are adjacent
	GOGGML_EVEN,      // and the rows at multiples of the second stride
	GOGGML_DENSE,     // no gaps, no permutation
	GOGGML_FLAT,      // and the rows at multiples of the second stride, matrices at those of the third
	GOGGML_CANONICAL, // the strides of a new tensor
};

// What the op of a node wants of a source.
enum goggml_layout goggml_wanted_layout(const struct ggml_tensor *node, int source);
bool goggml_has_layout(const struct ggml_tensor *t, enum goggml_layout layout);
// Tells whether the op of a node takes a source as it lies.
bool goggml_fits(const struct ggml_tensor *node, int source);
// Finds a tensor of the arena whose op cannot take an operand as it lies.
struct ggml_tensor *goggml_find_unfit(goggml_arena *arena);

#endif
