// Memory of the threads that compute, which lives as long as they do.
#ifndef KERN_SCRATCH_H
#define KERN_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

// One block for each use: blocks that a kernel needs at the same time are of different uses.
enum kern_scratch_use {
	KERN_SCRATCH_TILE,        // of weights, or scores, or gathered gradients
	KERN_SCRATCH_ACCUMULATOR, // of a chunk, or gradients of scores
	KERN_SCRATCH_ROW,         // in F32 on its way to another type
	KERN_SCRATCH_LIBRARY,     // oneDNN's own
	KERN_SCRATCH_COLUMNS,     // in F16, or gathered
	KERN_SCRATCH_SCALES,      // of those columns
	KERN_SCRATCH_PRODUCT,     // in F16, or transposed back
	KERN_SCRATCH_FACTORS,     // of a low-rank update, rounded
	KERN_SCRATCH_INDICES,     // of the columns of experts
	KERN_SCRATCH_BENT,        // scores, by a softcap
	KERN_SCRATCH_USES,
};

// Scratch memory of the calling thread for a use. It keeps its contents until the next call with the same use. Aborts
// when memory is out.
void *kern_scratch(enum kern_scratch_use use, size_t bytes);

// The bytes that all threads hold.
int64_t kern_scratch_bytes(void);

#endif
