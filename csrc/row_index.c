//go:build ignore

#include "row_index.h"
#include "tensor.h"

static struct ggml_tensor *goggml_ids_of(const struct ggml_tensor *node, int64_t *rows) {
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
	case GGML_OP_FLASH_ATTN_EXT: // NULL if all rows are seen
		*rows = node->src[1]->ne[1];
		return node->src[5];
	case GGML_OP_SSM_SCAN:
		*rows = node->src[0]->ne[3];
		return node->src[6];
	default:
		return NULL;
	}
}

bool goggml_row_index_of(struct ggml_tensor *node, goggml_row_index *index) {
	if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE)) {
		return false;
	}
	index->node = node;
	index->ids = goggml_ids_of(node, &index->rows);
	return index->ids != NULL;
}

int goggml_graph_row_indices(struct ggml_cgraph *graph, goggml_row_index *list, int room) {
	int n = 0;
	for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
		goggml_row_index index;
		bool listed = !goggml_row_index_of(ggml_graph_node(graph, i), &index);
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

// Reports whether the indices are a leaf, or a view of one, in memory that the CPU can read.
static bool goggml_is_host_leaf(const struct ggml_tensor *ids) {
	const struct ggml_tensor *root = ids->view_src ? ids->view_src : ids;
	return goggml_is_layout_op(ids) && root->op == GGML_OP_NONE && goggml_has_memory(ids) &&
		root->buffer != NULL && ggml_backend_buffer_is_host(root->buffer);
}

bool goggml_row_index_out_of_range(const goggml_row_index *index, int64_t *id) {
	const struct ggml_tensor *ids = index->ids;
	if (!goggml_is_host_leaf(ids)) {
		return false;
	}
	int64_t n = ggml_nelements(ids);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i;
		const char *p = ids->data;
		for (int d = 0; d < GGML_MAX_DIMS; d++) {
			p += at % ids->ne[d] * ids->nb[d];
			at /= ids->ne[d];
		}
		*id = ids->type == GGML_TYPE_I64 ? *(const int64_t *)p : *(const int32_t *)p;
		if (*id < 0 || *id >= index->rows) {
			return true;
		}
	}
	return false;
}
