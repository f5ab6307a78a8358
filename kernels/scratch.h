// Memory of the threads that compute, which lives as long as they do.
#ifndef KERN_SCRATCH_H
#define KERN_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

// One block for each use: what a kernel holds at the same time needs different ones.
enum kern_scratch_use {
	KERN_SCRATCH_TILE,        // of weights, or scores
	KERN_SCRATCH_ACCUMULATOR, // of a chunk, or gradients of scores
	KERN_SCRATCH_ROW,         // in F32 on its way to another type
	KERN_SCRATCH_LIBRARY,     // oneDNN's own
	KERN_SCRATCH_COLUMNS,     // in F16
	KERN_SCRATCH_SCALES,      // of those columns
	KERN_SCRATCH_PRODUCT,     // in F16
	KERN_SCRATCH_USES,
};

// Memory of the calling thread: what the last call with the same use gave, if that was large enough. Aborts when there
// is none.
void *kern_scratch(enum kern_scratch_use use, size_t bytes);

// The bytes that all threads hold.
int64_t kern_scratch_bytes(void);

#endif
