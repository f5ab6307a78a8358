//go:build ignore

#include "graph.h"
#include "custom.h"
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads) {
	size_t room = ggml_graph_overhead_custom(size, grads) + ggml_tensor_overhead();
	return ggml_new_graph_custom(goggml_arena_room(arena, room), size, grads);
}

goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads) {
	GUARDED(goggml_ptr, goggml_new_graph(arena, size, grads))
}

static struct ggml_cgraph *goggml_copy_graph(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads) {
	struct ggml_cgraph *grown = goggml_new_graph(arena, size, grads);
	ggml_graph_cpy(graph, grown);
	return grown;
}

goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads) {
	GUARDED(goggml_ptr, goggml_copy_graph(arena, graph, size, grads))
}

static goggml_error goggml_expand(struct ggml_cgraph *graph, struct ggml_tensor *tensor, bool compute) {
	GUARDED_VOID((compute ? ggml_build_forward_expand : ggml_build_forward_order)(graph, tensor))
}

goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor **tensors, size_t n, bool compute) {
	goggml_memory_changes_now(); // or a node is computed now that was not before
	goggml_error error = NULL;
	for (size_t i = 0; i < n && error == NULL; i++) {
		error = goggml_expand(graph, tensors[i], compute);
	}
	return error;
}

// A hash set of tensors, and how many there are.
typedef struct {
	struct ggml_tensor **seen;
	size_t mask;
	size_t count;
} goggml_tensors;

static void goggml_enter(goggml_tensors *set, struct ggml_tensor *tensor) {
	size_t i = ((uintptr_t)tensor >> 4) * 0x9E3779B97F4A7C15u >> 16 & set->mask;
	while (set->seen[i] != NULL) {
		if (set->seen[i] == tensor) {
			return;
		}
		i = (i + 1) & set->mask;
	}
	set->seen[i] = tensor;
	set->count++;
}

static bool goggml_graph_has(struct ggml_cgraph *graph, const struct ggml_tensor *tensor) {
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		if (ggml_graph_node(graph, i) == tensor) {
			return true;
		}
	}
	return false;
}

bool goggml_graph_concerns(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, const struct ggml_tensor *tensor) {
	for (int i = 0; i < n_leaves; i++) {
		if (leaves[i] == tensor) {
			return true;
		}
	}
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		const struct ggml_tensor *node = ggml_graph_node(graph, i);
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] == tensor) {
				return true;
			}
		}
	}
	return goggml_graph_has(graph, tensor);
}

int goggml_graph_admits(struct ggml_cgraph *graph, const struct ggml_tensor *tensor) {
	if (goggml_graph_has(graph, tensor)) {
		return GOGGML_PRESENT;
	}
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		const struct ggml_tensor *source = tensor->src[s];
		if (source != NULL && source->op != GGML_OP_NONE && !goggml_graph_has(graph, source)) {
			return s;
		}
	}
	return GOGGML_ADMITTED;
}

// Nodes, and sources that are none, counted as often as they are used.
static size_t goggml_graph_uses(struct ggml_cgraph *graph) {
	int n = ggml_graph_n_nodes(graph);
	size_t uses = (size_t)n;
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			uses += node->src[s] != NULL && node->src[s]->op == GGML_OP_NONE;
		}
	}
	return uses;
}

static struct ggml_cgraph *goggml_rebuild(goggml_arena *arena, struct ggml_cgraph *graph) {
	struct ggml_cgraph *rebuilt = goggml_new_graph(arena, goggml_graph_uses(graph), false);
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		ggml_build_forward_expand(rebuilt, ggml_graph_node(graph, i));
	}
	return rebuilt;
}

goggml_ptr goggml_graph_rebuild(goggml_arena *arena, struct ggml_cgraph *graph) {
	GUARDED(goggml_ptr, goggml_rebuild(arena, graph))
}

size_t goggml_graph_tensors(struct ggml_cgraph *graph, size_t limit) {
	size_t uses = goggml_graph_uses(graph);
	if (uses <= limit) {
		return uses; // no need to be exact
	}
	size_t size = 4096;
	while (size < 2 * uses) {
		size *= 2;
	}
	goggml_tensors set = {calloc(size, sizeof *set.seen), size - 1, 0};
	if (set.seen != NULL) {
		int n = ggml_graph_n_nodes(graph);
		for (int i = 0; i < n && set.count <= limit; i++) {
			struct ggml_tensor *node = ggml_graph_node(graph, i);
			goggml_enter(&set, node);
			for (int s = 0; s < GGML_MAX_SRC; s++) {
				if (node->src[s] != NULL && node->src[s]->op == GGML_OP_NONE) {
					goggml_enter(&set, node->src[s]);
				}
			}
		}
		uses = set.count;
	}
	free(set.seen);
	return uses;
}

bool goggml_is_layout_op(const struct ggml_tensor *t) {
	return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE ||
		t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

// ggml_graph_reset would clear the moments of an optimizer too, and so undo
// its steps when it runs before each of them.
static void goggml_reset(struct ggml_cgraph *graph) {
	const float one = 1.0f;
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		struct ggml_tensor *grad = ggml_graph_get_grad_acc(graph, node);
		if (grad == NULL) {
			continue;
		}
		if (node->flags & GGML_TENSOR_FLAG_LOSS) {
			ggml_backend_tensor_set(grad, &one, 0, sizeof one);
		} else {
			ggml_backend_tensor_memset(grad, 0, 0, ggml_nbytes(grad));
		}
	}
}

goggml_error goggml_graph_reset(struct ggml_cgraph *graph) {
	GUARDED_VOID(goggml_reset(graph))
}

goggml_error goggml_graph_reset_all(struct ggml_cgraph *graph) {
	GUARDED_VOID(ggml_graph_reset(graph))
}

goggml_marks goggml_graph_marks(struct ggml_cgraph *graph) {
	goggml_marks marks = {0};
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (node->flags & GGML_TENSOR_FLAG_LOSS) {
			marks.loss = node;
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			marks.params = marks.params || (node->src[s] != NULL && (node->src[s]->flags & GGML_TENSOR_FLAG_PARAM));
		}
	}
	return marks;
}

static bool goggml_unary_lacks_backward(enum ggml_unary_op op) {
	switch (op) {
	case GGML_UNARY_OP_TANH:
	case GGML_UNARY_OP_ELU:
	case GGML_UNARY_OP_SIGMOID:
	case GGML_UNARY_OP_GELU:
	case GGML_UNARY_OP_GELU_QUICK:
	case GGML_UNARY_OP_GELU_ERF:
	case GGML_UNARY_OP_HARDSWISH:
	case GGML_UNARY_OP_HARDSIGMOID:
	case GGML_UNARY_OP_FLOOR:
	case GGML_UNARY_OP_CEIL:
	case GGML_UNARY_OP_ROUND:
	case GGML_UNARY_OP_TRUNC:
	case GGML_UNARY_OP_XIELU:
		return true;
	default:
		return false;
	}
}

static float goggml_param_f32(const struct ggml_tensor *node, int i) {
	float value;
	memcpy(&value, &node->op_params[i], sizeof value);
	return value;
}

bool goggml_lacks_backward(const struct ggml_tensor *node) {
	switch (node->op) {
	case GGML_OP_UNARY:
		return goggml_unary_lacks_backward(ggml_get_unary_op(node));
	case GGML_OP_GLU:
		return ggml_get_glu_op(node) != GGML_GLU_OP_SWIGLU || node->src[1] == NULL;
	case GGML_OP_SOFT_MAX:
		return goggml_param_f32(node, 1) != 0.0f || node->src[2] != NULL; // the bias of ALiBi, sinks
	case GGML_OP_ROPE:
		return node->op_params[15] != 0; // the offset, which the library's rule forgets
	case GGML_OP_POOL_2D:
		return node->src[0]->type != GGML_TYPE_F32;
	case GGML_OP_ADD_ID:
	case GGML_OP_ADD_REL_POS:
	case GGML_OP_CLAMP:
	case GGML_OP_COL2IM_1D:
	case GGML_OP_CONCAT:
	case GGML_OP_CONV_2D:
	case GGML_OP_CONV_2D_DW:
	case GGML_OP_CONV_3D:
	case GGML_OP_CONV_TRANSPOSE_1D:
	case GGML_OP_CONV_TRANSPOSE_2D:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
	case GGML_OP_CUMSUM:
	case GGML_OP_CUSTOM:
	case GGML_OP_DIAG:
	case GGML_OP_DSV4_HC_COMB:
	case GGML_OP_DSV4_HC_POST:
	case GGML_OP_DSV4_HC_PRE:
	case GGML_OP_FLASH_ATTN_EXT:
	case GGML_OP_GATED_DELTA_NET:
	case GGML_OP_GATED_LINEAR_ATTN:
	case GGML_OP_GET_REL_POS:
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_GROUP_NORM:
	case GGML_OP_IM2COL_3D:
	case GGML_OP_IM2COL_BACK:
	case GGML_OP_L2_NORM:
	case GGML_OP_LEAKY_RELU:
	case GGML_OP_LIGHTNING_INDEXER:
	case GGML_OP_MAP_CUSTOM1:
	case GGML_OP_MAP_CUSTOM2:
	case GGML_OP_MAP_CUSTOM3:
	case GGML_OP_MUL_MAT_ID:
	case GGML_OP_NORM:
	case GGML_OP_OUT_PROD:
	case GGML_OP_PAD:
	case GGML_OP_PAD_REFLECT_1D:
	case GGML_OP_POOL_1D:
	case GGML_OP_POOL_2D_BACK:
	case GGML_OP_RMS_NORM_BACK:
	case GGML_OP_ROLL:
	case GGML_OP_ROPE_BACK:
	case GGML_OP_RWKV_WKV6:
	case GGML_OP_RWKV_WKV7:
	case GGML_OP_SET_ROWS:
	case GGML_OP_SILU_BACK:
	case GGML_OP_SOFT_MAX_BACK:
	case GGML_OP_SOLVE_TRI:
	case GGML_OP_SSM_CONV:
	case GGML_OP_SSM_SCAN:
	case GGML_OP_TIMESTEP_EMBEDDING:
	case GGML_OP_TRI:
	case GGML_OP_UPSCALE:
	case GGML_OP_WIN_PART:
	case GGML_OP_WIN_UNPART:
		return true;
	default:
		return false;
	}
}

const struct ggml_tensor *goggml_origin(const struct ggml_tensor *t) {
	while (goggml_is_layout_op(t) && t->src[0] != NULL) {
		t = t->src[0];
	}
	return t;
}

bool goggml_passes_need(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_UNARY:
		return ggml_get_unary_op(node) != GGML_UNARY_OP_SGN && ggml_get_unary_op(node) != GGML_UNARY_OP_STEP;
	case GGML_OP_IM2COL: // of the kernel only the shape counts
	case GGML_OP_IM2COL_BACK:
		return source != 0;
	case GGML_OP_CPY: // what is overwritten
	case GGML_OP_GET_ROWS:
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_ROPE:
		return source != 1;
	default:
		return true;
	}
}

bool goggml_gives_gradient(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_CROSS_ENTROPY_LOSS:
	case GGML_OP_ROPE:
	case GGML_OP_SOFT_MAX:
		return source == 0;
	default:
		return goggml_passes_need(node, source);
	}
}

bool goggml_works_in_place(const struct ggml_tensor *node) {
	return node->view_src != NULL && !goggml_is_layout_op(node) && node->op != GGML_OP_CPY;
}

void goggml_set_flag(struct ggml_tensor *t, int32_t flag) {
	t->flags |= flag;
	struct ggml_tensor *root = t->view_src;
	if (root != NULL && (flag == GGML_TENSOR_FLAG_OUTPUT || (flag == GGML_TENSOR_FLAG_INPUT && root->op == GGML_OP_NONE))) {
		root->flags |= flag;
	}
}

// A view copies the address of what it looks at when it is made; once that has
// got other memory, the copy is stale.
static bool goggml_stale(const struct ggml_tensor *t) {
	return t->view_src != NULL && t->data != NULL &&
		(t->view_src->data == NULL || t->data != (char *)t->view_src->data + t->view_offs);
}

bool goggml_has_memory(const struct ggml_tensor *t) {
	return (t->data != NULL && !goggml_stale(t)) || ggml_is_empty(t);
}

void goggml_drop_stale(struct ggml_tensor *t) {
	if (goggml_stale(t)) {
		goggml_memory_changes_now();
		t->data = NULL;
		t->buffer = NULL;
	}
}

// Row indices that the graph computes are checked on the way (indices.go);
// those that the caller wrote, and views of them, before.
static bool goggml_known_index(const struct ggml_tensor *ids) {
	const struct ggml_tensor *root = ids->view_src ? ids->view_src : ids;
	return goggml_is_layout_op(ids) && root->op == GGML_OP_NONE && goggml_has_memory(ids) &&
		root->buffer != NULL && ggml_backend_buffer_is_host(root->buffer);
}

static void goggml_index_check(const goggml_index *index, goggml_check *check) {
	struct ggml_tensor *ids = index->ids;
	if (!goggml_known_index(ids)) {
		return;
	}
	int64_t n = ggml_nelements(ids);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i;
		const char *p = ids->data;
		for (int d = 0; d < GGML_MAX_DIMS; d++) {
			p += at % ids->ne[d] * ids->nb[d];
			at /= ids->ne[d];
		}
		int64_t id = ids->type == GGML_TYPE_I64 ? *(const int64_t *)p : *(const int32_t *)p;
		if (id < 0 || id >= index->rows) {
			check->fault = GOGGML_FAULT_INDEX;
			check->node = index->node;
			check->operand = ids;
			check->value = id;
			check->limit = index->rows;
			return;
		}
	}
}

// The row indices of an op, and the number of rows; NULL when it takes none.
static struct ggml_tensor *goggml_indices(const struct ggml_tensor *node, int64_t *rows) {
	switch (node->op) {
	case GGML_OP_GET_ROWS:
		*rows = node->src[0]->ne[1];
		return node->src[1];
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_SET_ROWS:
		*rows = node->ne[1];
		return node->src[1];
	case GGML_OP_MUL_MAT_ID:
		*rows = node->src[0]->ne[2];
		return node->src[2];
	case GGML_OP_ADD_ID:
		*rows = node->src[1]->ne[1];
		return node->src[2];
	case GGML_OP_SSM_SCAN:
		*rows = node->src[0]->ne[3];
		return node->src[6];
	default:
		return NULL;
	}
}

static bool goggml_takes_index(struct ggml_tensor *node, goggml_index *index) {
	if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE)) {
		return false;
	}
	index->node = node;
	index->ids = goggml_indices(node, &index->rows);
	return index->ids != NULL;
}

int goggml_graph_indices(struct ggml_cgraph *graph, goggml_index *list, int room) {
	int n = 0;
	for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
		goggml_index index;
		bool listed = !goggml_takes_index(ggml_graph_node(graph, i), &index);
		for (int j = 0; j < n && j < room && !listed; j++) {
			listed = list[j].ids == index.ids && list[j].rows == index.rows;
		}
		if (!listed && n < room) {
			list[n] = index;
		}
		n += !listed;
	}
	return n;
}

// Tells whether the graph writes into memory that another tensor made.
static bool goggml_overwrites(struct ggml_cgraph *graph, const struct ggml_tensor *t) {
	const struct ggml_tensor *root = t->view_src ? t->view_src : t;
	int n = ggml_graph_n_nodes(graph);
	struct ggml_tensor **nodes = ggml_graph_nodes(graph);
	for (int i = 0; i < n; i++) {
		if (nodes[i]->view_src == root && !goggml_is_layout_op(nodes[i])) {
			return true;
		}
	}
	return false;
}

// Tells whether the node reads packed memory other than as the matrix of a product. Devices look at the first few
// operands only, and not at views.
static bool goggml_misuses_packed(const struct ggml_tensor *node) {
	bool product = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		const struct ggml_tensor *source = node->src[s];
		if (source == NULL || (product && s == 0 && source->view_src == NULL)) {
			continue;
		}
		if (goggml_lies_packed(source)) {
			return true;
		}
	}
	return false;
}

static bool goggml_supported(const struct ggml_tensor *node, ggml_backend_dev_t *devices, int n_devices) {
	if (n_devices == 0 || goggml_is_layout_op(node)) {
		return true;
	}
	if (goggml_misuses_packed(node)) {
		return false;
	}
	// The address of a function means nothing elsewhere, nor does packed memory, though RPC takes both.
	bool packed = goggml_packed_operand(node) != NULL, only_cpu = packed || goggml_is_custom(node);
	struct ggml_tensor moved, operand;
	if (packed && node->src[1] != NULL) {
		// The other operand may lie elsewhere now, but is copied to the CPU.
		moved = *node;
		operand = *node->src[1];
		operand.buffer = NULL;
		moved.src[1] = &operand;
		node = &moved;
	}
	for (int i = 0; i < n_devices; i++) {
		if (only_cpu && ggml_backend_dev_type(devices[i]) != GGML_BACKEND_DEVICE_TYPE_CPU) {
			continue;
		}
		if (ggml_backend_dev_supports_op(devices[i], node)) {
			return true;
		}
	}
	return false;
}

// What a device's support depends on and that can change: the nodes, of which
// a graph only gets more, and the kinds of memory.
typedef struct {
	uint64_t hash;
	ggml_backend_buffer_t buffer; // the last one
	ggml_backend_buffer_type_t type;
} goggml_support;

static void goggml_support_add(goggml_support *support, const void *p) {
	support->hash = (support->hash ^ (uintptr_t)p) * UINT64_C(0x9E3779B97F4A7C15);
}

static void goggml_support_add_memory(goggml_support *support, const struct ggml_tensor *t) {
	if (t->buffer != support->buffer) {
		support->buffer = t->buffer;
		support->type = t->buffer == NULL ? NULL : ggml_backend_buffer_get_type(t->buffer);
	}
	goggml_support_add(support, support->type);
}

// Looks at one node, but for what the devices support, which it adds up.
static void goggml_node_check(struct ggml_cgraph *graph, struct ggml_tensor *node, bool allocated, bool written, goggml_support *support, goggml_check *check) {
	if (allocated && !goggml_has_memory(node)) {
		check->fault = GOGGML_FAULT_UNALLOCATED;
		return;
	}
	goggml_support_add(support, node);
	goggml_support_add_memory(support, node);
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		struct ggml_tensor *source = node->src[s];
		if (source == NULL) {
			continue;
		}
		if (allocated && !goggml_has_memory(source)) {
			check->fault = GOGGML_FAULT_UNALLOCATED;
			check->operand = source;
			return;
		}
		goggml_support_add_memory(support, source);
	}
	goggml_index index;
	if (!written || !goggml_takes_index(node, &index)) {
		return;
	}
	if (goggml_overwrites(graph, index.ids)) {
		check->fault = GOGGML_FAULT_OVERWRITTEN;
		check->operand = index.ids;
		return;
	}
	goggml_index_check(&index, check);
}

// Tells whether the device computes on the tensor's memory; known is memory that it does.
static bool goggml_reachable(const struct ggml_tensor *tensor, ggml_backend_dev_t device, ggml_backend_buffer_type_t *known) {
	const struct ggml_tensor *root = tensor->view_src != NULL ? tensor->view_src : tensor;
	if (root->buffer == NULL) {
		return true;
	}
	ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(root->buffer);
	if (type != *known && !ggml_backend_dev_supports_buft(device, type)) {
		return false;
	}
	*known = type;
	return true;
}

// Tells whether the device computes on the memory of the node and its operands, else which one it does not.
static bool goggml_all_reachable(struct ggml_tensor *node, ggml_backend_dev_t device, ggml_backend_buffer_type_t *known, goggml_check *check) {
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		if (node->src[s] != NULL && !goggml_reachable(node->src[s], device, known)) {
			check->operand = node->src[s];
			return false;
		}
	}
	return goggml_reachable(node, device, known);
}

static goggml_finding goggml_look(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool allocated, bool written) {
	goggml_finding f = {graph, ggml_graph_n_nodes(graph), goggml_memory_changes(), 0, 0, written};
	goggml_support support = {.hash = allocated ? 2 : 1};
	for (int i = 0; i < n_devices; i++) {
		goggml_support_add(&support, devices[i]);
	}
	f.devices = support.hash;
	return f;
}

static bool goggml_still(const goggml_finding *before, const goggml_finding *now) {
	return before->written && now->written && before->graph == now->graph && before->nodes == now->nodes &&
		before->changes == now->changes && before->devices == now->devices;
}

goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool allocated, bool written,
		const goggml_finding *before, const goggml_index *indices, int n_indices) {
	goggml_check check = {.finding = goggml_look(graph, devices, n_devices, allocated, written)};
	check.same = goggml_still(before, &check.finding);
	for (int i = 0; check.same && i < n_indices && check.fault == GOGGML_FAULT_NONE; i++) {
		goggml_index_check(&indices[i], &check);
	}
	if (check.same) {
		return check;
	}
	goggml_support support = {.hash = check.finding.devices};
	int n = check.finding.nodes;
	struct ggml_tensor **nodes = ggml_graph_nodes(graph);
	for (int i = 0; i < n; i++) {
		goggml_node_check(graph, nodes[i], allocated, written, &support, &check);
		if (check.fault != GOGGML_FAULT_NONE) {
			check.node = nodes[i];
			return check;
		}
	}
	check.finding.support = support.hash;
	ggml_backend_buffer_type_t reached = NULL;
	for (int i = 0; support.hash != before->support && i < n; i++) {
		if (!goggml_supported(nodes[i], devices, n_devices)) {
			check.operand = goggml_packed_operand(nodes[i]);
			check.fault = check.operand != NULL ? GOGGML_FAULT_PACKED : GOGGML_FAULT_UNSUPPORTED;
		} else if (allocated && goggml_is_custom(nodes[i]) && !goggml_on_host(nodes[i])) {
			check.fault = GOGGML_FAULT_REMOTE;
		} else if (allocated && n_devices == 1 && !goggml_all_reachable(nodes[i], devices[0], &reached, &check)) {
			check.fault = GOGGML_FAULT_AWAY;
		}
		if (check.fault != GOGGML_FAULT_NONE) {
			check.node = nodes[i];
			return check;
		}
	}
	return check;
}

static void goggml_lease_add(goggml_lease *lease, struct ggml_tensor *t) {
	goggml_drop_stale(t);
	if (t->data == NULL) {
		lease->tensors[lease->n++] = t;
	}
}

goggml_lease goggml_lease_open(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	goggml_lease lease = {0};
	int n = ggml_graph_n_nodes(graph);
	lease.tensors = malloc(sizeof *lease.tensors * ((size_t)n * (2 + 2 * GGML_MAX_SRC) + n_leaves + 1));
	for (int i = 0; lease.tensors != NULL && i < n_leaves; i++) {
		goggml_lease_add(&lease, leaves[i]);
	}
	for (int i = 0; lease.tensors != NULL && i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		goggml_lease_add(&lease, node);
		struct ggml_tensor *grad = ggml_graph_get_grad_acc(graph, node);
		if (grad != NULL && grad->op == GGML_OP_NONE) {
			goggml_lease_add(&lease, grad);
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			// A source that is a node itself has been added already.
			struct ggml_tensor *src = node->src[s];
			if (src != NULL && src->op == GGML_OP_NONE) {
				goggml_lease_add(&lease, src);
				if (src->view_src != NULL && src->view_src->op == GGML_OP_NONE) {
					goggml_lease_add(&lease, src->view_src); // of an alias
				}
			}
		}
	}
	return lease;
}

static uint64_t goggml_mix(uint64_t plan, uint64_t x) {
	plan = (plan ^ x) * 0x9E3779B97F4A7C15u;
	return plan ^ plan >> 29;
}

// Numbers for the tensors that need memory, in the order in which they come.
typedef struct {
	const struct ggml_tensor **keys; // a hash table
	uint32_t *numbers;
	size_t mask;
	uint32_t count;
} goggml_numbers;

static uint32_t goggml_number(goggml_numbers *n, const struct ggml_tensor *t) {
	size_t i = ((uintptr_t)t >> 4) * 0x9E3779B97F4A7C15u >> 16 & n->mask;
	while (n->keys[i] != NULL && n->keys[i] != t) {
		i = (i + 1) & n->mask;
	}
	if (n->keys[i] == NULL) {
		n->keys[i] = t;
		n->numbers[i] = ++n->count;
	}
	return n->numbers[i];
}

static uint64_t goggml_plan_tensor(uint64_t plan, goggml_numbers *n, const struct ggml_tensor *t) {
	if (t == NULL || t->data != NULL) {
		return goggml_mix(plan, t != NULL);
	}
	plan = goggml_mix(plan, 2 + goggml_number(n, t));
	if (t->view_src != NULL) {
		return goggml_plan_tensor(plan, n, t->view_src);
	}
	int32_t lasting = t->flags & (GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
	return goggml_mix(plan, ggml_nbytes(t) << 4 ^ (uint64_t)lasting);
}

static uint64_t goggml_plan(goggml_numbers *numbers, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	int n = ggml_graph_n_nodes(graph);
	uint64_t plan = goggml_mix((uint64_t)n, (uint64_t)n_leaves);
	for (int i = 0; i < n_leaves; i++) {
		plan = goggml_plan_tensor(plan, numbers, leaves[i]);
	}
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		plan = goggml_mix(goggml_plan_tensor(plan, numbers, node), node->op);
		plan = goggml_plan_tensor(plan, numbers, ggml_graph_get_grad_acc(graph, node));
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL) {
				plan = goggml_plan_tensor(plan, numbers, node->src[s]);
			}
		}
	}
	return plan | 1;
}

uint64_t goggml_graph_plan(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	size_t bound = 4 * (goggml_graph_uses(graph) + (size_t)n_leaves), size = 64;
	while (size < bound) {
		size *= 2;
	}
	goggml_numbers numbers = {calloc(size, sizeof *numbers.keys), malloc(size * sizeof *numbers.numbers), size - 1, 0};
	uint64_t plan = 0;
	if (numbers.keys != NULL && numbers.numbers != NULL) {
		plan = goggml_plan(&numbers, graph, leaves, n_leaves);
	}
	free(numbers.keys);
	free(numbers.numbers);
	return plan;
}

bool goggml_lease_concerns(const goggml_lease *lease, const goggml_arena *arena) {
	for (int64_t i = 0; i < lease->n; i++) {
		if (goggml_arena_owns(arena, lease->tensors[i])) {
			return true;
		}
	}
	return false;
}

void goggml_lease_end(goggml_lease *lease) {
	goggml_memory_changes_now();
	for (int64_t i = 0; i < lease->n; i++) {
		lease->tensors[i]->data = NULL;
		lease->tensors[i]->buffer = NULL;
	}
	free(lease->tensors);
	*lease = (goggml_lease){0};
}
