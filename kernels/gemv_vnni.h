// Dot products of quantised rows with AVX512-VNNI. ggml's take so many instructions per block that
// instructions, not memory, limit the speed; these take half as many, and fewer still for each
// further column.
#ifndef KERN_GEMV_VNNI_H
#define KERN_GEMV_VNNI_H

#include "gemv_kernel.h"

// Returns the kernel of a type for n columns; NULL for other types, and on other processors. A product with one of
// several columns does not depend on the others; from KERN_PANEL_FROM columns on the order of its sum is another.
const struct kern_gemv_kernel *kern_vnni_of(enum ggml_type type, int64_t n);
enum { KERN_PANEL_FROM = 8 };

// Kernels that unpack panels of rows.
extern const struct kern_gemv_kernel kern_panel_q8_0, kern_panel_q4_0, kern_panel_q4_k, kern_panel_q5_k, kern_panel_q6_k;

#endif
