// A stack for signal handlers on the threads that compute.
#ifndef KERN_SIGNAL_STACK_H
#define KERN_SIGNAL_STACK_H

// oneDNN's F32 GEMM points the stack pointer into its buffer on the heap while it works. A signal that arrives then, as
// those of a CPU profile do, would overwrite what lies before the buffer, unless its handler has another stack. Go gives
// one to its own threads; this gives one to the others.
void kern_use_signal_stack(void);

#endif
