//go:build ignore

#include "native.h"
#include "custom.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// ggml's data of a custom op begins with its function.
ggml_custom_op_t goggml_native_function(const struct ggml_tensor *tensor) {
	if (tensor->op != GGML_OP_CUSTOM) {
		return NULL;
	}
	ggml_custom_op_t function;
	memcpy(&function, tensor->op_params, sizeof function);
	return goggml_is_go_op(function) ? NULL : function;
}

static struct ggml_tensor *goggml_native(struct ggml_context *ctx, const struct goggml_native_op *op, bool inplace,
		goggml_type type, const int64_t *ne, struct ggml_tensor **x, int n) {
	struct ggml_tensor *t = inplace ?
		ggml_custom_inplace(ctx, x[0], x + 1, n - 1, op->function, GGML_N_TASKS_MAX, NULL) :
		ggml_custom_4d(ctx, type, ne[0], ne[1], ne[2], ne[3], x, n, op->function, GGML_N_TASKS_MAX, NULL);
	// ggml defines the layout of op_params: if a version needs more of it, its data must not be
	// overwritten.
	static const char zero[GGML_MAX_OP_PARAMS - GOGGML_NATIVE_OFFSET];
	char *params = (char *)t->op_params + GOGGML_NATIVE_OFFSET;
	if (memcmp(params, zero, sizeof zero) != 0 || goggml_native_function(t) != op->function) {
		GGML_ABORT("this version of ggml stores custom ops in another way; use the version that goggml was tested with");
	}
	memcpy(params, op->params, sizeof op->params);
	// ggml leaves what was on the stack between its numbers: it would be sent to servers, which compare it.
	struct { ggml_custom_op_t function; int32_t n_tasks, padding; void *userdata; } own;
	_Static_assert(sizeof own <= GOGGML_NATIVE_OFFSET, "op_params begin with ggml's own");
	memcpy(&own, t->op_params, sizeof own);
	own.padding = 0;
	memcpy(t->op_params, &own, sizeof own);
	return t;
}

goggml_tensor goggml_op_native(goggml_arena *arena, const struct goggml_native_op *op, bool inplace, goggml_type type,
		const int64_t *ne, struct ggml_tensor **operands, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_native(goggml_arena_room(arena, GOGGML_OP_ROOM), op, inplace, type, ne, operands, n))
}

// Which device computes which function; entries are only added.
static struct {
	pthread_mutex_t lock; // of additions
	_Atomic int n_functions, n_devices;
	ggml_custom_op_t functions[64];
	struct {
		ggml_backend_dev_t device;
		_Atomic uint64_t functions; // a bit for each
	} devices[1024];
} goggml_shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int goggml_shared_function(ggml_custom_op_t function) {
	int n = goggml_shared.n_functions;
	for (int i = 0; i < n; i++) {
		if (goggml_shared.functions[i] == function) {
			return i;
		}
	}
	return -1;
}

static int goggml_shared_device(ggml_backend_dev_t device) {
	int n = goggml_shared.n_devices;
	for (int i = 0; i < n; i++) {
		if (goggml_shared.devices[i].device == device) {
			return i;
		}
	}
	return -1;
}

void goggml_share_native(ggml_backend_dev_t device, ggml_custom_op_t function) {
	pthread_mutex_lock(&goggml_shared.lock);
	int f = goggml_shared_function(function), d = goggml_shared_device(device);
	if (f < 0 && goggml_shared.n_functions < 64) {
		goggml_shared.functions[f = goggml_shared.n_functions] = function;
		goggml_shared.n_functions++;
	}
	if (d < 0 && goggml_shared.n_devices < 1024) {
		goggml_shared.devices[d = goggml_shared.n_devices].device = device;
		goggml_shared.n_devices++;
	}
	if (f >= 0 && d >= 0) {
		goggml_shared.devices[d].functions |= UINT64_C(1) << f;
	}
	pthread_mutex_unlock(&goggml_shared.lock);
}

bool goggml_shares_native(ggml_backend_dev_t device, ggml_custom_op_t function) {
	int f = goggml_shared_function(function), d = goggml_shared_device(device);
	return f >= 0 && d >= 0 && (goggml_shared.devices[d].functions >> f & 1) != 0;
}

bool goggml_computes_native(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	ggml_custom_op_t function = goggml_native_function(node);
	return function != NULL && goggml_shares_native(device, function);
}
