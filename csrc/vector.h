// Vector instructions of the width that the processor has.
#ifndef GOGGML_VECTOR_H
#define GOGGML_VECTOR_H

// Compiles a function for several kinds of processors; where the C library can
// choose between them at start, it takes the fastest. Loops of a fixed length
// become vector instructions.
#if defined(__x86_64__) && defined(__GLIBC__)
#define GOGGML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GOGGML_CLONES
#endif

#endif
