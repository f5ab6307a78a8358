#define _DEFAULT_SOURCE // stack_t

#include "signal_stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

enum { KERN_SIGNAL_STACK = 64 << 10 }; // the registers of AVX-512 and AMX take 12 kB

static pthread_key_t kern_signal_stack_key;

static void kern_free_signal_stack(void *memory) {
	sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
	free(memory);
}

static void kern_make_signal_stack_key(void) { pthread_key_create(&kern_signal_stack_key, kern_free_signal_stack); }

void kern_use_signal_stack(void) {
	static _Thread_local bool done;
	if (done) {
		return;
	}
	done = true;
	stack_t current;
	if (sigaltstack(NULL, &current) != 0 || !(current.ss_flags & SS_DISABLE)) {
		return;
	}
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_make_signal_stack_key);
	stack_t stack = {.ss_sp = malloc(KERN_SIGNAL_STACK), .ss_size = KERN_SIGNAL_STACK};
	if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0) {
		free(stack.ss_sp);
		return;
	}
	pthread_setspecific(kern_signal_stack_key, stack.ss_sp);
}
