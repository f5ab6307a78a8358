//go:build ignore

#include "refusals.h"
#include "native.h"

#include <stdio.h>
#include <string.h>

// A product of quantised weights whose other operand must keep more than 8 bits. How ggml stores
// the setting in the op is its own matter: comparing with a copy of the op shows it. For products
// of experts CUDA itself reports that it does not support it.
static bool goggml_wants_fine_source(ggml_backend_dev_t device, const struct ggml_tensor *node) {
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

// A product whose second operand has rows that CUDA cannot read at their alignment: four numbers at
// a time for quantised weights, else two if the rows of the weights are even. The first such read
// loses the device.
static bool goggml_reads_uneven_rows(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if ((node->op != GGML_OP_MUL_MAT && node->op != GGML_OP_MUL_MAT_ID) || node->src[1]->type != GGML_TYPE_F32) {
		return false;
	}
	const struct ggml_tensor *w = node->src[0], *x = node->src[1];
	size_t at_a_time = ggml_is_quantized(w->type) ? 4 : w->ne[0] % 2 == 0 ? 2 : 1;
	return (x->view_offs | x->nb[1] | x->nb[2] | x->nb[3]) % (at_a_time * sizeof(float)) != 0;
}

// A product with quantised weights that are part of another tensor. CUDA reads rows in steps of 512
// numbers and multiplies those beyond the end by zeros. A whole tensor has zeros there too; in a
// part there may be NaN.
static bool goggml_reads_beyond_rows(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	return (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) && ggml_is_quantized(node->src[0]->type) &&
		node->src[0]->view_src != NULL && node->src[0]->ne[0] % 512 != 0;
}

static bool goggml_is_copy(const struct ggml_tensor *node) {
	return node->op == GGML_OP_CPY || node->op == GGML_OP_CONT || node->op == GGML_OP_DUP;
}

// Ops for which CUDA assumes that an operand, or an in-place result, is contiguous.
static bool goggml_skips_gaps_on_cuda(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	const struct ggml_tensor *a = node->src[0];
	switch (node->op) {
	case GGML_OP_UNARY:
		return !ggml_is_contiguous(node) || (ggml_get_unary_op(node) == GGML_UNARY_OP_XIELU && !ggml_is_contiguous(a));
	case GGML_OP_SIN:
	case GGML_OP_COS:
	case GGML_OP_SQR:
	case GGML_OP_SQRT:
	case GGML_OP_LOG:
	case GGML_OP_NORM:
	case GGML_OP_RMS_NORM:
	case GGML_OP_L2_NORM:
		return !ggml_is_contiguous(node);
	case GGML_OP_ARGMAX:
	case GGML_OP_ARGSORT:
	case GGML_OP_TOP_K:
	case GGML_OP_DIAG:
		return !ggml_is_contiguous(a);
	case GGML_OP_SUM:
		return !ggml_is_contiguously_allocated(a);
	case GGML_OP_SET:
		return !ggml_is_contiguous(node->src[1]);
	case GGML_OP_RMS_NORM_BACK:
		return !ggml_is_contiguous(a) || !ggml_is_contiguous(node->src[1]);
	case GGML_OP_DUP:
		if (!ggml_is_contiguous(node)) {
			return true;
		}
		// fall through
	case GGML_OP_CPY:
	case GGML_OP_CONT:
		return node->type == GGML_TYPE_I64 && !(ggml_is_contiguous(a) && ggml_is_contiguous(node));
	default:
		return false;
	}
}

static bool goggml_skips_gaps_on_vulkan(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	switch (node->op) {
	case GGML_OP_REPEAT_BACK:
		return !ggml_is_contiguous(node->src[0]);
	case GGML_OP_CPY:
	case GGML_OP_CONT:
	case GGML_OP_DUP:
	case GGML_OP_CONCAT:
		for (int s = 0; s < 2; s++) {
			const struct ggml_tensor *x = node->src[s];
			if (x != NULL && ggml_is_quantized(x->type) && (x->view_offs != 0 || !ggml_is_contiguous(x))) {
				return true;
			}
		}
		return false;
	case GGML_OP_ADD_ID:
	case GGML_OP_RMS_NORM_BACK: {
		size_t unit = ggml_backend_buft_get_alignment(ggml_backend_dev_buffer_type(device)), offsets = 0;
		for (int s = 0; s < 3 && node->src[s] != NULL; s++) { offsets |= node->src[s]->view_offs; }
		return offsets % unit != 0;
	}
	default:
		return false;
	}
}

// Types without a kernel in a backend.
static bool goggml_lacks_type_on_cuda(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	return (node->op == GGML_OP_POOL_1D || node->op == GGML_OP_POOL_2D || node->op == GGML_OP_SUM) && node->src[0]->type != GGML_TYPE_F32;
}

static bool goggml_lacks_type_on_vulkan(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	return goggml_is_copy(node) && node->src[0]->type == GGML_TYPE_I64;
}

// Recurrences whose kernels support only some head sizes.
static bool goggml_lacks_head_size_on_cuda(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	switch (node->op) {
	case GGML_OP_GATED_DELTA_NET: {
		int64_t n = node->src[2]->ne[0];
		return n != 16 && n != 32 && n != 64 && n != 128;
	}
	case GGML_OP_GATED_LINEAR_ATTN:
	case GGML_OP_RWKV_WKV6:
	case GGML_OP_RWKV_WKV7:
		return node->src[0]->ne[0] != 64 && node->src[0]->ne[0] != 128;
	default:
		return false;
	}
}

static bool goggml_lacks_head_size_on_vulkan(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	return (node->op == GGML_OP_RWKV_WKV6 || node->op == GGML_OP_RWKV_WKV7) && node->src[0]->ne[0] != 64;
}

// RoPE of images with four sections; GPUs support two.
static bool goggml_has_four_sections(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if (node->op != GGML_OP_ROPE && node->op != GGML_OP_ROPE_BACK) {
		return false;
	}
	enum { mode = 2, sections = 11 }; // indices of the parameters
	return node->op_params[mode] == GGML_ROPE_TYPE_VISION && (node->op_params[sections + 2] | node->op_params[sections + 3]) != 0;
}

#define GOGGML_CONT "computes this layout wrongly or not at all; make the operands contiguous by Cont"
#define GOGGML_HEAD "computes this head size wrongly or not at all; it has kernels for "

// ggml builds the backends for NVIDIA, AMD and Moore Threads GPUs from one source.
#define GOGGML_CUDA {"CUDA", "ROCm", "MUSA"}
#define GOGGML_VULKAN {"Vulkan"}
#define GOGGML_GPUS {"CUDA", "ROCm", "MUSA", "Vulkan"}

static const struct {
	const char *backends[4];
	bool (*fails)(ggml_backend_dev_t device, const struct ggml_tensor *node);
	const char *why;
} goggml_refused[] = {
	{GOGGML_CUDA, goggml_wants_fine_source,
		"multiplies quantised weights by operands of 8 bits, and ends the process if SetSourcePrecision requires more; do not call it"},
	{GOGGML_CUDA, goggml_reads_uneven_rows,
		"multiplies by rows that begin at multiples of 8 bytes, of 16 for quantised weights, and is lost at others; make the operand contiguous by Cont"},
	{GOGGML_CUDA, goggml_reads_beyond_rows,
		"reads beyond the rows of quantised weights that are a view, unless they have multiples of 512 numbers; make them a tensor of their own"},
	{GOGGML_CUDA, goggml_skips_gaps_on_cuda, GOGGML_CONT},
	{GOGGML_CUDA, goggml_lacks_type_on_cuda, "computes it of F32 alone; use Cast"},
	{GOGGML_CUDA, goggml_lacks_head_size_on_cuda, GOGGML_HEAD "64 and 128, of the gated delta rule for 16 and 32, too"},
	{GOGGML_VULKAN, goggml_skips_gaps_on_vulkan, GOGGML_CONT},
	{GOGGML_VULKAN, goggml_lacks_type_on_vulkan, "copies no I64; use I32"},
	{GOGGML_VULKAN, goggml_lacks_head_size_on_vulkan, GOGGML_HEAD "64"},
	{GOGGML_GPUS, goggml_has_four_sections, "knows two of the sections of RoPEVision; leave the others out"},
};

static const char *goggml_refused_as;

void goggml_refuse_as(const char *backend) { goggml_refused_as = backend; }

static const char *goggml_lacking; // names of ops, each between spaces

void goggml_lack(const char *ops) { goggml_lacking = ops; }

// Reports whether a test makes the device lack an op, as another kind of device does.
static bool goggml_is_lacking(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if (goggml_lacking == NULL || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
		return false;
	}
	char word[64];
	snprintf(word, sizeof word, " %s ", ggml_op_desc(node));
	return strstr(goggml_lacking, word) != NULL;
}

// Reports whether the device belongs to one of the backends.
static bool goggml_is_of(ggml_backend_dev_t device, const char *const backends[4]) {
	ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
	if (reg == NULL || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
		return false;
	}
	const char *name = goggml_refused_as != NULL ? goggml_refused_as : ggml_backend_reg_name(reg);
	for (int i = 0; i < 4 && backends[i] != NULL; i++) {
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
		if (goggml_refused[i].fails(device, node) && goggml_is_of(device, goggml_refused[i].backends)) {
			return goggml_refused[i].why;
		}
	}
	return NULL;
}

bool goggml_supports(ggml_backend_dev_t device, const struct ggml_tensor *node) {
	if (goggml_native_function(node) != NULL && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU && !goggml_computes_native(device, node)) {
		return false; // the RPC device claims every op
	}
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
