// A stand-in for CUDA without a GPU, with which ggml's plugin loads and runs its host code. Memory is system
// memory, and kernels and products compute nothing. Calls are recorded, a line each, in the file that
// GOGGML_CUDA_TRACE names.
#ifndef STANDIN_TRACE_H
#define STANDIN_TRACE_H

// Writes a line as printf does; does nothing if no file is named.
void standin_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
