// What the limits of the process leave to libraries that end the process, or never return, when they cannot have it.
#ifndef GOGGML_LIMITS_H
#define GOGGML_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

// Reports whether the process can have n threads more at once.
bool goggml_can_start_threads(int n);

// Reports whether the process can map as many bytes more.
bool goggml_can_map(size_t bytes);

#endif
