// Dynamic scheduling, as by OpenMP's schedule(dynamic): the threads of a computation take the chunks of an op one by
// one. Equal shares would make all of them wait for the slowest: cores are not equally fast at all times, and other
// programs use them too.
#ifndef KERN_CHUNKS_H
#define KERN_CHUNKS_H

#include "kern.h"

// The next of count chunks of an op that is being computed, or -1 when there are no more. Each of the nth threads asks
// until then.
int64_t kern_next_chunk(struct ggml_tensor *dst, int64_t count, int nth);

// Lets a thread that leaves an op midway, because ggml aborts or a C++ library throws, drain its chunk queue. Called once,
// after package ggml has installed its guard, which such a thread jumps out to.
void kern_guard_chunks(void);

#endif
