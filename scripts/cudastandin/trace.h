// A stand-in for CUDA without a GPU, with which ggml's plugin loads and runs its host code: memory is the system's, kernels
// and products compute nothing, and what is asked for is written down, a line a call, into the file that
// GOGGML_CUDA_TRACE names.
#ifndef STANDIN_TRACE_H
#define STANDIN_TRACE_H

// Writes a line as printf does; nothing where no file is named.
void standin_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
