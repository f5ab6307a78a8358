// Checks of process limits, for libraries that end the process, or never return, if a resource is
// short.
#ifndef GOGGML_LIMITS_H
#define GOGGML_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

// Reports whether the process can start n more threads.
bool goggml_can_start_threads(int n);

// Reports whether the process can map this many more bytes.
bool goggml_can_map(size_t bytes);

#endif
