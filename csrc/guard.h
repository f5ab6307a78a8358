// The guard turns a failed assertion of ggml, and an uncaught C++ exception, into an error.
//
// ggml calls one global callback before it aborts the process. The callback here leaves by longjmp
// to the innermost guarded call of the same thread, so that every shim returns its result and the
// message together, in one cgo call (a goroutine may move to another thread between two calls).
// Exceptions are caught by the same frames, see exception.h. Rules that keep this sound:
//
//
// - A jump crosses only C frames of ggml and of the shim. A callback into Go
//   suspends the guard first.
// - On Linux each shim has a personality, the function by which the unwinder of
//   C++ asks a frame whether it catches; no C++ compiler is needed. Frames between
//   run their destructors, so a plugin's locks are released.
// - The threads of an abandoned computation still wait for it, so its backend is
//   marked broken (ErrBroken) and never computes again.
// - A worker thread has no frame: an assertion or exception there ends the process.
//   So the checks in Go come first, and internal/fuzz looks for faults that they miss.
#ifndef GOGGML_GUARD_H
#define GOGGML_GUARD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "exception.h"

// A guarded result. error is NULL, or a message that the caller frees. Functions for compute
// threads return a goggml_int, which internal/computethread/thread.h declares again.
typedef struct { void               *value; char *error; } goggml_ptr;
typedef struct { struct ggml_tensor *value; char *error; } goggml_tensor;
typedef struct { int64_t             value; char *error; } goggml_int;
typedef char *goggml_error;

struct goggml_frame {
	struct goggml_frame *outer;
	char *volatile error;
	struct _Unwind_Exception *volatile exception; // the exception thrown, instead of error
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
// Returns the message of the failure that made a call jump to its frame.
char *goggml_left(struct goggml_frame *frame);

// goggml_guarded reports whether the thread has a frame to jump to; goggml_leave jumps there, with
// a message or an exception.
bool goggml_guarded(void);
_Noreturn void goggml_leave(char *message, struct _Unwind_Exception *exception);

// goggml_guard_suspend hides the frames of the thread while a callback runs Go code, which no jump
// may cross; goggml_guard_resume takes its result and restores them.
goggml_guard_state goggml_guard_suspend(void);
void goggml_guard_resume(goggml_guard_state outer);

// Returns the slot in which a callback records the computation whose function it runs on this
// thread, until goggml_guard_resume; 0 means none.
uintptr_t *goggml_calling_slot(void);
uintptr_t goggml_calling(void);

// GUARDED(T, call) is the body of a shim that returns T {value, error}.
#define GUARDED(T, call) \
	T result = {0}; \
	struct goggml_frame frame; \
	goggml_push(&frame); \
	if (_setjmp(frame.jump)) { result.error = goggml_left(&frame); return result; } \
	GOGGML_CATCH \
	result.value = (call); \
	goggml_pop(&frame); \
	return result;

// GUARDED_VOID(statement) is the body of a shim that returns only the error.
#define GUARDED_VOID(statement) \
	struct goggml_frame frame; \
	goggml_push(&frame); \
	if (_setjmp(frame.jump)) { return goggml_left(&frame); } \
	GOGGML_CATCH \
	statement; \
	goggml_pop(&frame); \
	return NULL;

#endif
