// The wait policy of OpenMP: how its threads wait for each other at barriers.
#ifndef GOGGML_OMP_WAIT_H
#define GOGGML_OMP_WAIT_H

#include "thread.h"

// A job that starts an idle OpenMP pool, with a thread per processor, on the thread that runs it.
// libgomp then counts more threads than processors and makes all barriers of the process passive:
// threads sleep after a few µs of spinning. It lasts until the thread ends. If the OpenMP runtime
// is not libgomp, or the process cannot have that many threads, it does nothing and the value is 0.
goggml_outcome goggml_force_passive_wait(void *, void *);

#endif
