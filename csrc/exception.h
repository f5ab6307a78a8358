// Exceptions of C++ at the border to C. Plugins throw them where a device has no memory left or is lost, and C cannot
// catch them. But what unwinds the stack asks each frame only for its personality, a function that says whether it
// catches; it is C++'s for functions of C++, and ours for guarded calls, which need no compiler of C++ for it. The frames
// in between are left by their destructors, so that locks are given back.
#ifndef GOGGML_EXCEPTION_H
#define GOGGML_EXCEPTION_H

struct _Unwind_Exception;

// GOGGML_CATCH makes the function that it stands in catch what is thrown below it, for the innermost frame of the guard.
// The personality is named by its distance from the entry, in 32 bits (DW_EH_PE_pcrel | DW_EH_PE_sdata4).
#if defined(__ELF__) && defined(__LP64__) && defined(__GCC_HAVE_DWARF2_CFI_ASM)
#define GOGGML_CATCH __asm__ volatile(".cfi_personality 0x1b, goggml_personality");
#else
#define GOGGML_CATCH
#endif

// goggml_exception_end gives what an exception says, allocated by malloc, and frees it.
char *goggml_exception_end(struct _Unwind_Exception *exception);

#endif
