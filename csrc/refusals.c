//go:build ignore

#include "refusals.h"

#include <stdio.h>
#include <string.h>

// A product of quantised weights whose other operand is to keep more than 8 bits. What the setting looks like in the op
// is ggml's business: a copy of the op shows it. Of products with experts CUDA says by itself that it has none.
static bool goggml_wants_fine_source(const struct ggml_tensor *node) {
	if (node->op != GGML_OP_MUL_MAT || !ggml_is_quantized(node->src[0]->type)) {
		return false;
	}
	static const enum ggml_prec coarse[] = {GGML_PREC_UNDEFINED, GGML_PREC_Q8, GGML_PREC_Q4};
	for (size_t i = 0; i < sizeof coarse / sizeof *coarse; i++) {
		struct ggml_tensor other = *node;
		if (!ggml_prec_set_src(&other, coarse[i], 1) || memcmp(other.op_params, node->op_params, sizeof other.op_params) == 0) {
			return false;
		}
	}
	return true;
}

// ggml builds the backends for NVIDIA's, AMD's and Moore Threads' GPUs from one source.
static const struct {
	const char *backends[3];
	bool (*dies)(const struct ggml_tensor *node);
	const char *why;
} goggml_refused[] = {
	{{"CUDA", "ROCm", "MUSA"}, goggml_wants_fine_source,
		"multiplies quantised weights by operands of 8 bits, and ends the process where SetSourcePrecision demands more; leave that out"},
};

static const char *goggml_refused_as;

void goggml_refuse_as(const char *backend) { goggml_refused_as = backend; }

static const char *goggml_lacking; // names of ops with spaces around them

void goggml_lack(const char *ops) { goggml_lacking = ops; }

// Reports whether a device is to lack an op, as one of another kind does.
static bool goggml_is_lacking(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if (goggml_lacking == NULL || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
		return false;
	}
	char word[64];
	snprintf(word, sizeof word, " %s ", ggml_op_desc(node));
	return strstr(goggml_lacking, word) != NULL;
}

// Reports whether the device is of one of the backends.
static bool goggml_is_of(ggml_backend_dev_t device, const char *const backends[3]) {
	ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
	if (reg == NULL || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
		return false;
	}
	const char *name = goggml_refused_as != NULL ? goggml_refused_as : ggml_backend_reg_name(reg);
	for (int i = 0; i < 3; i++) {
		if (strcmp(name, backends[i]) == 0) {
			return true;
		}
	}
	return false;
}

const char *goggml_refusal(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if (goggml_is_lacking(device, node)) {
		return "does not have it";
	}
	for (size_t i = 0; i < sizeof goggml_refused / sizeof *goggml_refused; i++) {
		if (goggml_refused[i].dies(node) && goggml_is_of(device, goggml_refused[i].backends)) {
			return goggml_refused[i].why;
		}
	}
	return NULL;
}

bool goggml_supports(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	return ggml_backend_dev_supports_op(device, node) && goggml_refusal(device, node) == NULL;
}

struct ggml_tensor *goggml_graph_next_refused(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n, int *i) {
	int n_nodes = ggml_graph_n_nodes(graph);
	while (*i < n_nodes) {
		struct ggml_tensor *node = ggml_graph_node(graph, (*i)++);
		for (int d = 0; d < n; d++) {
			if (goggml_refusal(devices[d], node) != NULL) {
				return node;
			}
		}
	}
	return NULL;
}
