// The abort guard: turns a failed assertion of the library into an error.
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

// A guarded result. error is NULL, or a message that the caller frees.
typedef struct { void               *value; char *error; } goggml_ptr;
typedef struct { struct ggml_tensor *value; char *error; } goggml_tensor;
typedef struct { int64_t             value; char *error; } goggml_int;
typedef char *goggml_error;

struct goggml_frame {
	struct goggml_frame *outer;
	char *volatile error;
	jmp_buf jump;
};

// goggml_install sets the callbacks of the library. It runs once, before any
// other call.
void goggml_install(void);

void goggml_push(struct goggml_frame *frame);
void goggml_pop(struct goggml_frame *frame);

// goggml_bar hides the frames of the thread while a callback runs Go code, over
// which nobody may jump; goggml_unbar takes what it returned.
struct goggml_frame *goggml_bar(void);
void goggml_unbar(struct goggml_frame *outer);

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
