// The abort guard: turns a failed assertion of ggml into an error.
//
// ggml calls one global callback before it aborts the process. The callback
// here leaves by longjmp to the innermost guarded call of the same thread, so
// that every shim returns its result and the message together, in one cgo call
// (a goroutine may move to another thread between two calls).
#ifndef GOGGML_GUARD_H
#define GOGGML_GUARD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

// A guarded result. error is NULL, or a message that the caller frees. What runs on a compute thread returns a
// goggml_int, which internal/computethread/thread.h declares again.
typedef struct { void               *value; char *error; } goggml_ptr;
typedef struct { struct ggml_tensor *value; char *error; } goggml_tensor;
typedef struct { int64_t             value; char *error; } goggml_int;
typedef char *goggml_error;

struct goggml_frame {
	struct goggml_frame *outer;
	char *volatile error;
	jmp_buf jump;
};

typedef struct {
	struct goggml_frame *frames;
	uintptr_t calling;
} goggml_guard_state;

// goggml_install sets the callbacks of ggml. It runs once, before any
// other call.
void goggml_install(void);

void goggml_push(struct goggml_frame *frame);
void goggml_pop(struct goggml_frame *frame);

// goggml_guard_suspend hides the frames of the thread while a callback runs Go code, over
// which nobody may jump; goggml_guard_resume takes what it returned.
goggml_guard_state goggml_guard_suspend(void);
void goggml_guard_resume(goggml_guard_state outer);

// Where a callback notes the computation whose function it runs on this thread,
// for the time until goggml_guard_resume; 0 stands for none.
uintptr_t *goggml_calling_slot(void);
uintptr_t goggml_calling(void);

// GUARDED(T, call) is the body of a shim that returns T {value, error}.
#define GUARDED(T, call) \
	T result = {0}; \
	struct goggml_frame frame; \
	goggml_push(&frame); \
	if (_setjmp(frame.jump)) { result.error = frame.error; return result; } \
	result.value = (call); \
	goggml_pop(&frame); \
	return result;

// GUARDED_VOID(statement) is the body of a shim that returns only the error.
#define GUARDED_VOID(statement) \
	struct goggml_frame frame; \
	goggml_push(&frame); \
	if (_setjmp(frame.jump)) { return frame.error; } \
	statement; \
	goggml_pop(&frame); \
	return NULL;

#endif
