// C++ exceptions at the border to C. Plugins throw them if a device has no memory left or is lost,
// and C cannot catch them. But the unwinder asks each frame only for its personality, a function
// that decides whether the frame catches. Functions of C++ have C++'s personality; guarded calls
// have ours, which needs no C++ compiler. The frames in between run their destructors, which
// release locks.
#ifndef GOGGML_EXCEPTION_H
#define GOGGML_EXCEPTION_H

struct _Unwind_Exception;

// GOGGML_CATCH makes its function catch exceptions thrown below it, for the innermost frame of the
// guard. The personality is given by its distance from the entry, in 32 bits (DW_EH_PE_pcrel |
// DW_EH_PE_sdata4).
#if defined(__ELF__) && defined(__LP64__) && defined(__GCC_HAVE_DWARF2_CFI_ASM)
#define GOGGML_CATCH __asm__ volatile(".cfi_personality 0x1b, goggml_personality");
#else
#define GOGGML_CATCH
#endif

// goggml_exception_end returns the text of an exception, allocated by malloc, and frees the
// exception.
char *goggml_exception_end(struct _Unwind_Exception *exception);

#endif
