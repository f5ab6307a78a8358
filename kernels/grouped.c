#include "grouped.h"
#include "scratch.h"

#include <math.h>
#include <string.h>

// Returns the expert of a column, counted over [used, n]; the number of experts if the index is
// invalid.
static int64_t kern_group_of(const struct ggml_tensor *ids, int64_t column, int64_t experts) {
	int64_t slot = column % ids->ne[0], token = column / ids->ne[0];
	int32_t id = *(const int32_t *)((const char *)ids->data + slot * ids->nb[0] + token * ids->nb[1]);
	return id < 0 || id >= experts ? experts : id;
}

// Counting sort.
struct kern_groups kern_group(const struct ggml_tensor *ids, int64_t experts) {
	int64_t used = ids->ne[0], count = used * ids->ne[1];
	int32_t *first = kern_scratch(KERN_SCRATCH_INDICES, (experts + 3 + count) * sizeof *first), *columns = first + experts + 3;
	memset(first, 0, (experts + 3) * sizeof *first);
	int32_t *counts = first + 2, *next = first + 1; // size of each group; next is the end of a group so far
	for (int64_t i = 0; i < count; i++) {
		counts[kern_group_of(ids, i, experts)]++;
	}
	for (int64_t group = 0; group < experts; group++) {
		counts[group + 1] += counts[group];
	}
	for (int64_t i = 0; i < count; i++) {
		columns[next[kern_group_of(ids, i, experts)]++] = (int32_t)i;
	}
	return (struct kern_groups){columns, first};
}

int64_t kern_padded(const struct ggml_tensor *x, int64_t count) {
	enum { KERN_COLUMNS = 16 };
	return x->type == GGML_TYPE_BF16 ? kern_ceil_div(count, KERN_COLUMNS) * KERN_COLUMNS : count;
}

void *kern_gather(const struct ggml_tensor *x, int64_t used, const int32_t *columns, int64_t count, int64_t padded,
		int64_t k0, int64_t k1, enum kern_scratch_use use) {
	size_t element = ggml_type_size(x->type), size = (k1 - k0) * element;
	char *gathered = kern_scratch(use, padded * size);
	memset(gathered + count * size, 0, (padded - count) * size);
	for (int64_t i = 0; i < count; i++) {
		int64_t column = x->ne[1] < used ? columns[i] / used : columns[i];
		memcpy(gathered + i * size, (const char *)x->data + (column * x->ne[0] + k0) * element, size);
	}
	return gathered;
}

void kern_no_expert(struct ggml_tensor *dst, const int32_t *columns, int64_t count, int64_t from, int64_t to) {
	for (int64_t i = 0; i < count; i++) {
		for (int64_t j = from; j < to; j++) {
			((float *)dst->data)[columns[i] * dst->ne[0] + j] = NAN;
		}
	}
}
