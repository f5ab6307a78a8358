// A signal stack for the computing threads.
#ifndef KERN_SIGNAL_STACK_H
#define KERN_SIGNAL_STACK_H

// oneDNN's F32 GEMM points the stack pointer into its heap buffer while it works. A signal handler
// that runs then, such as a CPU profiler's, would overwrite memory before the buffer unless it has
// a stack of its own. Go gives one to its own threads; this gives one to the others.
void kern_use_signal_stack(void);

#endif
