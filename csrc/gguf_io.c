//go:build ignore

#include "gguf_io.h"

#include <stdlib.h>
#include <string.h>

goggml_ptr goggml_gguf_new(void) {
	GUARDED(goggml_ptr, gguf_init_empty())
}

struct goggml_header {
	const char *data;
	size_t size;
};

static size_t goggml_read_header(void *userdata, void *out, uint64_t offset, size_t n) {
	const struct goggml_header *header = userdata;
	if (offset >= header->size) {
		return 0;
	}
	if (n > header->size - offset) {
		n = header->size - offset;
	}
	memcpy(out, header->data + offset, n);
	return n;
}

goggml_ptr goggml_gguf_read(const void *data, size_t size, uint64_t file_size) {
	struct goggml_header header = {data, size};
	struct gguf_init_params params = {.no_alloc = true};
	GUARDED(goggml_ptr, gguf_init_from_callback(goggml_read_header, &header, 0, file_size, params))
}

static struct goggml_gguf_kv goggml_kv(const struct gguf_context *gguf, int64_t id) {
	struct goggml_gguf_kv kv = {.key = gguf_get_key(gguf, id), .type = gguf_get_kv_type(gguf, id), .n = 1};
	switch (kv.type) {
	case GGUF_TYPE_ARRAY:
		kv.array = true;
		kv.type = gguf_get_arr_type(gguf, id);
		kv.n = gguf_get_arr_n(gguf, id);
		kv.data = kv.type == GGUF_TYPE_STRING ? NULL : gguf_get_arr_data(gguf, id);
		break;
	case GGUF_TYPE_STRING:
		kv.data = gguf_get_val_str(gguf, id);
		break;
	default:
		kv.data = gguf_get_val_data(gguf, id);
	}
	return kv;
}

goggml_gguf_kv_result goggml_gguf_kv_at(const struct gguf_context *gguf, int64_t id) {
	GUARDED(goggml_gguf_kv_result, goggml_kv(gguf, id))
}

static void goggml_strings(const struct gguf_context *gguf, int64_t id, size_t first, size_t n, const char **out) {
	for (size_t i = 0; i < n; i++) {
		out[i] = gguf_get_arr_str(gguf, id, first + i);
	}
}

goggml_error goggml_gguf_strings(const struct gguf_context *gguf, int64_t id, size_t first, size_t n, const char **out) {
	GUARDED_VOID(goggml_strings(gguf, id, first, n, out))
}

static void goggml_set(struct gguf_context *gguf, const char *key, enum gguf_type type, const void *value) {
	switch (type) {
	case GGUF_TYPE_UINT8:   gguf_set_val_u8(gguf, key, *(const uint8_t *)value); break;
	case GGUF_TYPE_INT8:    gguf_set_val_i8(gguf, key, *(const int8_t *)value); break;
	case GGUF_TYPE_UINT16:  gguf_set_val_u16(gguf, key, *(const uint16_t *)value); break;
	case GGUF_TYPE_INT16:   gguf_set_val_i16(gguf, key, *(const int16_t *)value); break;
	case GGUF_TYPE_UINT32:  gguf_set_val_u32(gguf, key, *(const uint32_t *)value); break;
	case GGUF_TYPE_INT32:   gguf_set_val_i32(gguf, key, *(const int32_t *)value); break;
	case GGUF_TYPE_FLOAT32: gguf_set_val_f32(gguf, key, *(const float *)value); break;
	case GGUF_TYPE_BOOL:    gguf_set_val_bool(gguf, key, *(const uint8_t *)value != 0); break;
	case GGUF_TYPE_STRING:  gguf_set_val_str(gguf, key, value); break;
	case GGUF_TYPE_UINT64:  gguf_set_val_u64(gguf, key, *(const uint64_t *)value); break;
	case GGUF_TYPE_INT64:   gguf_set_val_i64(gguf, key, *(const int64_t *)value); break;
	case GGUF_TYPE_FLOAT64: gguf_set_val_f64(gguf, key, *(const double *)value); break;
	default: GGML_ABORT("no scalar has the type %d", (int)type);
	}
}

goggml_error goggml_gguf_set(struct gguf_context *gguf, const char *key, enum gguf_type type, const void *value) {
	GUARDED_VOID(goggml_set(gguf, key, type, value))
}

goggml_error goggml_gguf_set_array(struct gguf_context *gguf, const char *key, enum gguf_type type, const void *data, size_t n) {
	GUARDED_VOID(gguf_set_arr_data(gguf, key, type, data, n))
}

goggml_error goggml_gguf_set_strings(struct gguf_context *gguf, const char *key, const char *text, size_t n) {
	const char **strings = calloc(n + 1, sizeof *strings);
	if (strings == NULL) {
		return strdup("out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		strings[i] = text;
		text += strlen(text) + 1;
	}
	struct goggml_frame frame;
	goggml_push(&frame);
	if (_setjmp(frame.jump) == 0) {
		gguf_set_arr_str(gguf, key, strings, n);
		goggml_pop(&frame);
	}
	free(strings);
	return frame.error;
}

goggml_error goggml_gguf_set_kv(struct gguf_context *gguf, const struct gguf_context *src) {
	GUARDED_VOID(gguf_set_kv(gguf, src))
}

goggml_error goggml_gguf_remove(struct gguf_context *gguf, const char *key) {
	GUARDED_VOID(gguf_remove_key(gguf, key))
}

static struct goggml_gguf_info goggml_info(const struct gguf_context *gguf, int64_t id) {
	struct goggml_gguf_info info = {
		.name = gguf_get_tensor_name(gguf, id),
		.type = gguf_get_tensor_type(gguf, id),
		.offset = gguf_get_tensor_offset(gguf, id),
		.size = gguf_get_tensor_size(gguf, id),
	};
	memcpy(info.ne, gguf_get_tensor_ne(gguf, id), sizeof info.ne);
	return info;
}

goggml_gguf_info_result goggml_gguf_info_at(const struct gguf_context *gguf, int64_t id) {
	GUARDED(goggml_gguf_info_result, goggml_info(gguf, id))
}

// gguf_add_tensor copies the struct and reads only its name, type and sizes, so that it needs
// neither a context nor data.
static void goggml_add(struct gguf_context *gguf, const char *name, enum ggml_type type, const int64_t *ne) {
	struct ggml_tensor tensor = {.type = type};
	memcpy(tensor.ne, ne, sizeof tensor.ne);
	tensor.nb[0] = ggml_type_size(type);
	tensor.nb[1] = ggml_row_size(type, ne[0]);
	tensor.nb[2] = tensor.nb[1] * ne[1];
	tensor.nb[3] = tensor.nb[2] * ne[2];
	ggml_set_name(&tensor, name);
	gguf_add_tensor(gguf, &tensor);
}

goggml_error goggml_gguf_add(struct gguf_context *gguf, const char *name, enum ggml_type type, const int64_t *ne) {
	GUARDED_VOID(goggml_add(gguf, name, type, ne))
}

goggml_error goggml_gguf_set_tensor_type(struct gguf_context *gguf, const char *name, enum ggml_type type) {
	GUARDED_VOID(gguf_set_tensor_type(gguf, name, type))
}

goggml_int goggml_gguf_meta_size(const struct gguf_context *gguf) {
	GUARDED(goggml_int, gguf_get_meta_size(gguf))
}

goggml_error goggml_gguf_meta_data(const struct gguf_context *gguf, void *out) {
	GUARDED_VOID(gguf_get_meta_data(gguf, out))
}

goggml_int goggml_quantize(enum ggml_type type, const float *src, void *dst, int64_t rows, int64_t row_len, const float *importance) {
	GUARDED(goggml_int, ggml_quantize_chunk(type, src, dst, 0, rows, row_len, importance))
}

goggml_error goggml_dequantize(enum ggml_type type, const void *src, float *dst, int64_t n) {
	GUARDED_VOID(ggml_get_type_traits(type)->to_float(src, dst, n))
}
