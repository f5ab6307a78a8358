//go:build ignore

#include "guard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct goggml_frame *goggml_top;

void goggml_push(struct goggml_frame *frame) {
	frame->outer = goggml_top;
	frame->error = NULL;
	frame->exception = NULL;
	goggml_top = frame;
}

void goggml_pop(struct goggml_frame *frame) {
	goggml_top = frame->outer;
}

char *goggml_left(struct goggml_frame *frame) {
	return frame->exception != NULL ? goggml_exception_end(frame->exception) : frame->error;
}

static _Thread_local uintptr_t goggml_caller;

goggml_guard_state goggml_guard_suspend(void) {
	goggml_guard_state outer = {goggml_top, goggml_caller};
	goggml_top = NULL;
	return outer;
}

void goggml_guard_resume(goggml_guard_state outer) {
	goggml_top = outer.frames;
	goggml_caller = outer.calling;
}

uintptr_t *goggml_calling_slot(void) { return &goggml_caller; }

uintptr_t goggml_calling(void) { return goggml_caller; }

bool goggml_guarded(void) { return goggml_top != NULL; }

_Noreturn void goggml_leave(char *message, struct _Unwind_Exception *exception) {
	struct goggml_frame *frame = goggml_top;
	frame->error = message;
	frame->exception = exception;
	goggml_top = frame->outer;
	_longjmp(frame->jump, 1);
}

// goggml_on_abort runs on the asserting thread. Without a frame (on a worker thread of a backend,
// or in Go code run by a callback) there is nowhere to jump: it returns, and ggml aborts.
static void goggml_on_abort(const char *message) {
	if (!goggml_guarded()) {
		fprintf(stderr, "ggml: fatal error where it cannot be caught: %s\n", message);
		fflush(stderr);
		return;
	}
	goggml_leave(strdup(message), NULL);
}

extern void goggmlLog(int level, char *text);

static void goggml_on_log(enum ggml_log_level level, const char *text, void *data) {
	(void)data;
	goggml_guard_state outer = goggml_guard_suspend();
	goggmlLog((int)level, (char *)text);
	goggml_guard_resume(outer);
}

// An exception that no frame catches ends here, on the throwing thread and with its stack intact:
// on a system without catching guarded calls, and if it leaves a function that must not throw.
static void goggml_on_terminate(void) {
	if (goggml_guarded()) {
		goggml_on_abort("uncaught C++ exception, most likely out of memory");
	}
	abort();
}

void goggml_install(void) {
	ggml_set_abort_callback(goggml_on_abort);
	ggml_log_set(goggml_on_log, NULL);
	// std::set_terminate; also replaces ggml's handler, which starts a debugger.
	void (*set_terminate)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");
	if (set_terminate != NULL) {
		set_terminate(goggml_on_terminate);
	}
}
