// The instructions that kernels may use.
#ifndef KERN_ISA_H
#define KERN_ISA_H

#include <stdbool.h>

// Reports whether ONEDNN_MAX_CPU_ISA, which limits oneDNN too, is unset, names no limit, or begins with one of the names.
// The list of names ends with NULL.
bool kern_isa_allowed(const char *const *names);
#define KERN_ISA_ALLOWED(...) kern_isa_allowed((const char *const[]){"ALL", "DEFAULT", "AVX10", __VA_ARGS__, NULL})

// Reports whether AVX-512 with BW and VL is available and allowed.
bool kern_isa_avx512(void);
// Reports whether AVX2 with FMA is available and allowed.
bool kern_isa_avx2(void);
// Reports whether F16C is available too.
bool kern_isa_f16c(void);

#endif
