#include "tile.h"
#include "dequantize.h"
#include "elementwise.h"
#include "f16.h"
#include "scratch.h"
#include "vector.h"

enum { KERN_PREFETCH_ROWS = 8 }; // distance of software prefetch in rows of a weight

ggml_to_float_t kern_to_f32(enum ggml_type type) {
	ggml_to_float_t vector = kern_vector_to_f32(type);
	if (vector != NULL) {
		return vector;
	}
	return type == GGML_TYPE_F16 ? kern_f16_to_f32() : ggml_get_type_traits(type)->to_float;
}

void kern_convert_from_f32(enum ggml_type type, const float *from, void *to, int64_t n) {
	if (type == GGML_TYPE_BF16) {
		kern_round_bf16(from, to, n);
	} else {
		kern_f32_to_f16()(from, to, n);
	}
}

const void *kern_weight_tile(const struct ggml_tensor *w, int64_t matrix, enum ggml_type type,
		int64_t k0, int64_t k1, int64_t m0, int64_t m1, int64_t *ld) {
	const char *first = (const char *)kern_matrix(w, matrix) + m0 * w->nb[1] + ggml_row_size(w->type, k0);
	if (w->type == type) {
		*ld = kern_ld(w);
		return first;
	}
	int64_t k = k1 - k0, size = ggml_type_size(type);
	*ld = k + KERN_LD_PADDING / size;
	ggml_to_float_t to_f32 = kern_to_f32(w->type);
	kern_to_bf16_t to_bf16 = type == GGML_TYPE_BF16 ? kern_vector_to_bf16(w->type) : NULL;
	char *tile = kern_scratch(KERN_SCRATCH_TILE, *ld * (m1 - m0) * size);
	float *row = type == GGML_TYPE_F32 ? NULL : kern_scratch(KERN_SCRATCH_ROW, k * sizeof *row);
	size_t bytes = ggml_row_size(w->type, k);
	for (int64_t m = 0; m < m1 - m0; m++) {
		const void *from = first + m * w->nb[1];
		void *to = tile + m * *ld * size;
		// The hardware prefetcher does not follow from one row's part to the next row's part.
		kern_prefetch((const char *)from + KERN_PREFETCH_ROWS * w->nb[1], bytes);
		if (type == GGML_TYPE_F32) {
			to_f32(from, to, k);
		} else if (to_bf16 != NULL) {
			to_bf16(from, to, k);
		} else if (w->type == GGML_TYPE_F32) {
			kern_convert_from_f32(type, from, to, k);
		} else {
			to_f32(from, row, k);
			kern_convert_from_f32(type, row, to, k);
		}
	}
	return tile;
}
