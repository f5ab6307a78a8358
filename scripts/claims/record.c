// Preloaded into ggml's program test-backend-ops, this replaces the function that asks a backend whether it
// supports an op. It writes a line with the answer for each, with a tab after the kind of the op:
//
//   KIND <tab> yes|no OP RESULT [PARAMETERS] OPERAND ...
//
// A tensor is type:shape, and :strides in blocks of the type unless it is contiguous; "-" stands for an absent
// operand. OP has a star if the result is a view. Ops of one kind differ only in their sizes and in parameters that select no mode.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <stdio.h>

enum { PARAMS = GGML_MAX_OP_PARAMS / sizeof(int32_t) };

static void write_kind(const struct ggml_tensor *t) {
	if (t == NULL) {
		fputs(" -", stdout);
		return;
	}
	printf(" %s", ggml_type_name(t->type));
	if (ggml_is_empty(t)) {
		fputs(":empty", stdout);
	}
	if (!ggml_is_contiguous(t)) {
		fputs(ggml_is_permuted(t) ? ":permuted" : ":spaced", stdout);
	}
	if (t->nb[0] != ggml_type_size(t->type)) {
		fputs(":columns", stdout);
	}
}

static void write_tensor(const struct ggml_tensor *t) {
	if (t == NULL) {
		fputs(" -", stdout);
		return;
	}
	printf(" %s", ggml_type_name(t->type));
	int dims = GGML_MAX_DIMS;
	while (dims > 1 && t->ne[dims - 1] == 1) {
		dims--;
	}
	for (int i = 0; i < dims; i++) {
		printf("%c%lld", i == 0 ? ':' : ',', (long long)t->ne[i]);
	}
	for (int i = 0; !ggml_is_contiguous(t) && i < GGML_MAX_DIMS; i++) {
		printf("%c%zu", i == 0 ? ':' : ',', t->nb[i] / ggml_type_size(t->type));
	}
}

// mode returns the parameter that selects what the op does; 0 for most ops.
static int32_t mode(const struct ggml_tensor *op) {
	switch (op->op) {
	case GGML_OP_ROPE:
	case GGML_OP_ROPE_BACK: return op->op_params[2];
	case GGML_OP_ARGSORT:
	case GGML_OP_CONCAT:
	case GGML_OP_POOL_1D:
	case GGML_OP_POOL_2D:
	case GGML_OP_TRI:
	case GGML_OP_UPSCALE: return op->op_params[0];
	default: return 0;
	}
}

bool ggml_backend_supports_op(ggml_backend_t backend, const struct ggml_tensor *op) {
	bool (*real)(ggml_backend_t, const struct ggml_tensor *) =
		(bool (*)(ggml_backend_t, const struct ggml_tensor *))dlsym(RTLD_NEXT, "ggml_backend_supports_op");
	bool yes = real(backend, op);
	int operands = GGML_MAX_SRC, params = PARAMS;
	while (operands > 0 && op->src[operands - 1] == NULL) {
		operands--;
	}
	while (params > 0 && op->op_params[params - 1] == 0) {
		params--;
	}
	char name[64];
	snprintf(name, sizeof name, "%s %s%s", yes ? "yes" : "no", ggml_op_desc(op), op->view_src == NULL ? "" : "*");

	printf("%s %d ", name, mode(op));
	for (int i = 0; i < params; i++) {
		putchar(op->op_params[i] == 0 ? '0' : '1');
	}
	write_kind(op);
	for (int i = 0; i < operands; i++) {
		write_kind(op->src[i]);
	}

	printf("\t%s", name);
	write_tensor(op);
	fputs(" [", stdout);
	for (int i = 0; i < params; i++) {
		printf("%s%d", i == 0 ? "" : ",", op->op_params[i]);
	}
	putchar(']');
	for (int i = 0; i < operands; i++) {
		write_tensor(op->src[i]);
	}
	putchar('\n');
	return yes;
}
