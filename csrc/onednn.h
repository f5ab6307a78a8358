// oneDNN, by the part of its C interface that is used. Its types are opaque
// pointers, so its headers are not needed.
#ifndef GOGGML_ONEDNN_H
#define GOGGML_ONEDNN_H

#include "blas.h"

// Takes the library that is loaded, if it is oneDNN 3.
bool goggml_onednn_open(void *library);
void goggml_onednn_describe(char *text, size_t size);
bool goggml_onednn_bf16(void);
bool goggml_onednn_fast_bf16(void);
void goggml_onednn_multiply(const struct goggml_gemm *g, const void *a, const void *b, float *out);

#endif
