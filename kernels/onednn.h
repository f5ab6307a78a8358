// oneDNN, by the used part of its C interface. Its types are opaque pointers, so its headers are
// not needed.
#ifndef KERN_ONEDNN_H
#define KERN_ONEDNN_H

#include "library.h"

// Uses a loaded GEMM library if it is oneDNN 3.
bool kern_onednn_open(void *library);
void kern_onednn_describe(char *text, size_t size);
bool kern_onednn_bf16(void);
bool kern_onednn_fast_bf16(void);
bool kern_onednn_amx(void);
void kern_onednn_gemm(const struct kern_gemm *g, const void *a, const void *b, float *c);

#endif
