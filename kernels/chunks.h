// Dynamic scheduling, like OpenMP's schedule(dynamic): the threads of a computation take the chunks
// of an op one by one. With equal shares all threads would wait for the slowest: cores are not
// equally fast at all times, and other programs use them too.
#ifndef KERN_CHUNKS_H
#define KERN_CHUNKS_H

#include "kern.h"

// Returns the next of count chunks of an op that is being computed, or -1 if none is left. Each of
// the nth threads must call it until it returns -1.
int64_t kern_next_chunk(struct ggml_tensor *dst, int64_t count, int nth);

// Makes a thread that leaves an op midway, because ggml aborts or a C++ library throws, drain the
// op's chunk queue. Call it once, after package ggml has installed its guard, to which such a
// thread jumps.
void kern_guard_chunks(void);

#endif
