// Scratch memory of the computing threads, which lives as long as the threads.
#ifndef KERN_SCRATCH_H
#define KERN_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

// One block per use: blocks needed at the same time have different uses.
enum kern_scratch_use {
	KERN_SCRATCH_TILE,        // weights, or scores, or gathered gradients
	KERN_SCRATCH_ACCUMULATOR, // sums of a chunk, or gradients of scores
	KERN_SCRATCH_ROW,         // F32 before conversion to another type
	KERN_SCRATCH_LIBRARY,     // oneDNN's scratchpad
	KERN_SCRATCH_COLUMNS,     // columns in F16, or gathered
	KERN_SCRATCH_SCALES,      // scales of those columns
	KERN_SCRATCH_PRODUCT,     // product in F16, or transposed back
	KERN_SCRATCH_FACTORS,     // rounded factors of a low-rank update
	KERN_SCRATCH_INDICES,     // indices of the columns of experts
	KERN_SCRATCH_BENT,        // scores after tanh of a softcap
	KERN_SCRATCH_PACKED,      // columns in integers
	KERN_SCRATCH_USES,
};

// Returns the calling thread's scratch memory for a use. It keeps its contents until the next call
// with the same use. Aborts if out of memory.
void *kern_scratch(enum kern_scratch_use use, size_t bytes);

// Returns the bytes that all threads hold.
int64_t kern_scratch_bytes(void);

#endif
