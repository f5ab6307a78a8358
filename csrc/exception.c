//go:build ignore

#include "exception.h"
#include "guard.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

// The unwinder calls goggml_personality twice: to ask whether its frame catches, and, after leaving
// the frames below, to catch. The end of a thread is not an exception.
__attribute__((visibility("hidden"), used))
_Unwind_Reason_Code goggml_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
		struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
	(void)version, (void)class, (void)context;
	if (!goggml_guarded() || (actions & _UA_FORCE_UNWIND)) {
		return _URC_CONTINUE_UNWIND;
	}
	if (actions & _UA_SEARCH_PHASE) {
		return _URC_HANDLER_FOUND;
	}
	if (!(actions & _UA_HANDLER_FRAME)) {
		return _URC_CONTINUE_UNWIND;
	}
	goggml_leave(NULL, exception);
}

// A type in the C++ ABI: its first member is its table of virtual functions.
typedef struct {
	void **functions;
	const char *name;
} goggml_cxx_type;

// The exception class of libstdc++.
static const _Unwind_Exception_Class goggml_gnu_cxx = 0x474e5543432b2b00; // "GNUCC++"
enum { GOGGML_TYPE_DO_CATCH = 4, GOGGML_EXCEPTION_WHAT = 2 };           // indices in the tables

// Returns the text of a std::exception, which follows its header; NULL for other exceptions.
static const char *goggml_what(struct _Unwind_Exception *exception, const goggml_cxx_type *thrown) {
	const goggml_cxx_type *base = dlsym(RTLD_DEFAULT, "_ZTISt9exception");
	if (base == NULL || exception->exception_class != goggml_gnu_cxx) {
		return NULL;
	}
	void *object = exception + 1;
	bool (*catches)(const goggml_cxx_type *, const goggml_cxx_type *, void **, unsigned) =
		(bool (*)(const goggml_cxx_type *, const goggml_cxx_type *, void **, unsigned))base->functions[GOGGML_TYPE_DO_CATCH];
	if (!catches(base, thrown, &object, 1)) {
		return NULL;
	}
	const char *(*what)(void *) = (const char *(*)(void *))(*(void ***)object)[GOGGML_EXCEPTION_WHAT];
	return what(object);
}

char *goggml_exception_end(struct _Unwind_Exception *exception) {
	void *(*begin)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "__cxa_begin_catch");
	void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "__cxa_end_catch");
	const goggml_cxx_type *(*type)(void) = (const goggml_cxx_type *(*)(void))dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
	if (begin == NULL || end == NULL || type == NULL) {
		return strdup("a C++ exception");
	}
	begin(exception);
	const goggml_cxx_type *thrown = type();
	const char *text = thrown != NULL ? goggml_what(exception, thrown) : NULL;
	char *message = strdup(text != NULL ? text : "a C++ exception that says nothing");
	end();
	return message;
}
