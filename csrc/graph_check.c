//go:build ignore

#include "graph_check.h"
#include "custom.h"
#include "native.h"
#include "precision.h"
#include "ptr_table.h"
#include "refusals.h"
#include "repack.h"
#include "tensor.h"

static goggml_check_key goggml_check_key_of(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool memory, bool row_indices) {
	goggml_check_key key = {
		.graph = graph,
		.nodes = ggml_graph_n_nodes(graph),
		.memory_version = goggml_memory_version(),
		.devices = goggml_hash_mix(memory ? 2 : 1, goggml_source_precisions()),
		.row_indices = row_indices,
	};
	for (int i = 0; i < n_devices; i++) {
		key.devices = goggml_hash_mix(key.devices, (uintptr_t)devices[i]);
	}
	return key;
}

static bool goggml_check_unchanged(const goggml_check_key *cached, const goggml_check_key *now) {
	return cached->row_indices && now->row_indices && cached->graph == now->graph && cached->nodes == now->nodes &&
		cached->memory_version == now->memory_version && cached->devices == now->devices;
}

static void goggml_check_row_index(const goggml_row_index *index, goggml_check *check) {
	if (goggml_row_index_out_of_range(index, &check->value)) {
		check->fault = GOGGML_FAULT_INDEX;
		check->node = index->node;
		check->operand = index->ids;
		check->limit = index->rows;
	}
}

// The tensors whose memory is written by ops of the graph other than the op that made them.
typedef struct {
	struct ggml_cgraph *graph;
	bool found;
	goggml_ptr_table roots;
} goggml_overwritten;

static void goggml_find_overwritten(goggml_overwritten *overwritten) {
	int n = ggml_graph_n_nodes(overwritten->graph), count = 0;
	struct ggml_tensor **nodes = ggml_graph_nodes(overwritten->graph);
	for (int i = 0; i < n; i++) {
		count += nodes[i]->view_src != NULL && !goggml_is_layout_op(nodes[i]);
	}
	overwritten->found = true;
	if (!goggml_ptr_table_init(&overwritten->roots, (size_t)count)) {
		return;
	}
	for (int i = 0; i < n; i++) {
		if (nodes[i]->view_src != NULL && !goggml_is_layout_op(nodes[i])) {
			goggml_ptr_table_number(&overwritten->roots, nodes[i]->view_src);
		}
	}
}

// Reports whether a tensor is overwritten, or memory is too short to find out.
static bool goggml_overwrites(goggml_overwritten *overwritten, const struct ggml_tensor *t) {
	if (!overwritten->found) {
		goggml_find_overwritten(overwritten);
	}
	return overwritten->roots.slots == NULL || goggml_ptr_table_has(&overwritten->roots, t->view_src ? t->view_src : t);
}

// The hash of a check_key's support, with the last hashed buffer and its type.
typedef struct {
	uint64_t hash;
	ggml_backend_buffer_t buffer;
	ggml_backend_buffer_type_t type;
} goggml_support_hash;

static void goggml_hash_memory(goggml_support_hash *support, const struct ggml_tensor *t) {
	if (t->buffer != support->buffer) {
		support->buffer = t->buffer;
		support->type = t->buffer == NULL ? NULL : ggml_backend_buffer_get_type(t->buffer);
	}
	support->hash = goggml_hash_mix(support->hash, (uintptr_t)support->type);
}

// Checks the memory and the row indices of a node, and adds it to the hash.
static void goggml_check_node(goggml_overwritten *overwritten, struct ggml_tensor *node, bool memory, bool row_indices, goggml_support_hash *support, goggml_check *check) {
	if (memory && !goggml_has_memory(node)) {
		check->fault = GOGGML_FAULT_UNALLOCATED;
		return;
	}
	support->hash = goggml_hash_mix(support->hash, (uintptr_t)node);
	goggml_hash_memory(support, node);
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		struct ggml_tensor *source = node->src[s];
		if (source == NULL) {
			continue;
		}
		if (memory && !goggml_has_memory(source)) {
			check->fault = GOGGML_FAULT_UNALLOCATED;
			check->operand = source;
			return;
		}
		goggml_hash_memory(support, source);
	}
	goggml_row_index index;
	if (!row_indices || !goggml_row_index_of(node, &index)) {
		return;
	}
	if (goggml_overwrites(overwritten, index.ids)) {
		check->fault = GOGGML_FAULT_OVERWRITTEN;
		check->operand = index.ids;
		return;
	}
	goggml_check_row_index(&index, check);
}

// Reports whether the node reads repacked weights other than as the matrix of a product. Devices
// check only the first few operands, and no views.
static bool goggml_misuses_repacked(const struct ggml_tensor *node) {
	bool product = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		const struct ggml_tensor *source = node->src[s];
		if (source == NULL || (product && s == 0 && source->view_src == NULL)) {
			continue;
		}
		if (goggml_is_repacked(source)) {
			return true;
		}
	}
	return false;
}

// Reports whether one of the devices supports the op of a node.
static bool goggml_supported(const struct ggml_tensor *node, ggml_backend_dev_t *devices, int n_devices) {
	if (n_devices == 0 || goggml_is_layout_op(node)) {
		return true;
	}
	if (goggml_misuses_repacked(node)) {
		return false;
	}
	// The RPC device claims both, but repacked weights are meaningless in another process, and so is the address of a
	// function whose op the server does not know.
	bool repacked = goggml_repacked_operand(node) != NULL, only_cpu = repacked || goggml_is_custom(node);
	struct ggml_tensor moved, operand;
	if (repacked && node->src[1] != NULL) {
		// The other operand may lie elsewhere now, but will be copied to the CPU.
		moved = *node;
		operand = *node->src[1];
		operand.buffer = NULL;
		moved.src[1] = &operand;
		node = &moved;
	}
	for (int i = 0; i < n_devices; i++) {
		if (only_cpu && ggml_backend_dev_type(devices[i]) != GGML_BACKEND_DEVICE_TYPE_CPU && (repacked || !goggml_computes_native(devices[i], node))) {
			continue;
		}
		if (goggml_supports(devices[i], node)) {
			return true;
		}
	}
	return false;
}

// Reports whether the device can access the tensor's memory; known is a kind of memory that it can
// access.
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

// Reports whether the device can access the memory of the node and its operands; if not, sets
// check's operand.
static bool goggml_all_reachable(struct ggml_tensor *node, ggml_backend_dev_t device, ggml_backend_buffer_type_t *known, goggml_check *check) {
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		if (node->src[s] != NULL && !goggml_reachable(node->src[s], device, known)) {
			check->operand = node->src[s];
			return false;
		}
	}
	return goggml_reachable(node, device, known);
}

// Reports whether a node is a native op that the server computes in whose memory it is.
static bool goggml_is_remote(const struct ggml_tensor *node) {
	const struct ggml_tensor *root = node->view_src != NULL ? node->view_src : node;
	ggml_backend_dev_t device = root->buffer == NULL ? NULL : ggml_backend_buft_get_device(ggml_backend_buffer_get_type(root->buffer));
	return device != NULL && goggml_computes_native(device, node);
}

// Checks whether the devices support the op of a node on its memory.
static void goggml_check_support(struct ggml_tensor *node, ggml_backend_dev_t *devices, int n_devices, bool memory, ggml_backend_buffer_type_t *reached, goggml_check *check) {
	if (!goggml_supported(node, devices, n_devices)) {
		check->operand = goggml_repacked_operand(node);
		check->fault = check->operand != NULL ? GOGGML_FAULT_REPACKED : GOGGML_FAULT_UNSUPPORTED;
		for (int i = 0; i < n_devices && check->refusal == NULL; i++) {
			check->refusal = goggml_refusal(devices[i], node);
		}
	} else if (memory && goggml_is_custom(node) && !goggml_on_host(node) && !goggml_is_remote(node)) {
		check->fault = GOGGML_FAULT_CUSTOM_NOT_HOST;
	} else if (memory && n_devices == 1 && !goggml_all_reachable(node, devices[0], reached, check)) {
		check->fault = GOGGML_FAULT_BUFFER_UNREACHABLE;
	}
}

goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool memory, bool row_indices,
		const goggml_check_key *cached, const goggml_row_index *cached_indices, int n_cached) {
	goggml_check check = {.key = goggml_check_key_of(graph, devices, n_devices, memory, row_indices)};
	check.unchanged = goggml_check_unchanged(cached, &check.key);
	if (check.unchanged) {
		for (int i = 0; i < n_cached && check.fault == GOGGML_FAULT_NONE; i++) {
			goggml_check_row_index(&cached_indices[i], &check);
		}
		return check;
	}
	goggml_support_hash support = {.hash = check.key.devices};
	goggml_overwritten overwritten = {.graph = graph};
	struct ggml_tensor **nodes = ggml_graph_nodes(graph);
	for (int i = 0; i < check.key.nodes && check.fault == GOGGML_FAULT_NONE; i++) {
		goggml_check_node(&overwritten, check.node = nodes[i], memory, row_indices, &support, &check);
	}
	goggml_ptr_table_free(&overwritten.roots);
	check.key.support = support.hash;
	if (check.fault != GOGGML_FAULT_NONE || support.hash == cached->support) {
		return check;
	}
	ggml_backend_buffer_type_t reached = NULL;
	for (int i = 0; i < check.key.nodes && check.fault == GOGGML_FAULT_NONE; i++) {
		goggml_check_support(check.node = nodes[i], devices, n_devices, memory, &reached, &check);
	}
	return check;
}
