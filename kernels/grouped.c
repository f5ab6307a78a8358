#include "grouped.h"
#include "scratch.h"

#include <math.h>
#include <string.h>

static int32_t kern_id(const struct ggml_tensor *ids, int64_t slot, int64_t token) {
	return *(const int32_t *)((const char *)ids->data + slot * ids->nb[0] + token * ids->nb[1]);
}

int64_t kern_columns_of(const struct ggml_tensor *ids, int64_t expert, int64_t experts, int32_t *columns) {
	int64_t count = 0;
	for (int64_t token = 0; token < ids->ne[1]; token++) {
		for (int64_t slot = 0; slot < ids->ne[0]; slot++) {
			int32_t id = kern_id(ids, slot, token);
			if (id == expert || expert == experts && (id < 0 || id >= experts)) {
				columns[count++] = (int32_t)(token * ids->ne[0] + slot);
			}
		}
	}
	return count;
}

void *kern_gather(const struct ggml_tensor *x, int64_t used, const int32_t *columns, int64_t count) {
	size_t size = x->ne[0] * ggml_type_size(x->type);
	char *gathered = kern_scratch(KERN_SCRATCH_COLUMNS, count * size);
	for (int64_t i = 0; i < count; i++) {
		int64_t column = x->ne[1] < used ? columns[i] / used : columns[i];
		memcpy(gathered + i * size, (const char *)x->data + column * size, size);
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
