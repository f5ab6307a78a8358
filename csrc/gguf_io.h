// GGUF files, guarded.
#ifndef GOGGML_GGUF_IO_H
#define GOGGML_GGUF_IO_H

#include "guard.h"

// A key and its value. A scalar has n 1, and data points to it (or is the string itself); an array
// of strings has data NULL and is read by goggml_gguf_strings.
struct goggml_gguf_kv {
	const char *key;
	enum gguf_type type; // element type of an array
	bool array;
	size_t n;
	const void *data;
};

struct goggml_gguf_info {
	const char *name;
	enum ggml_type type;
	int64_t ne[GGML_MAX_DIMS];
	size_t offset;
	size_t size;
};

typedef struct { struct goggml_gguf_kv   value; char *error; } goggml_gguf_kv_result;
typedef struct { struct goggml_gguf_info value; char *error; } goggml_gguf_info_result;

goggml_ptr goggml_gguf_new(void);
// Parses a header in memory. file_size is the size of the whole file.
goggml_ptr goggml_gguf_read(const void *header, size_t size, uint64_t file_size);

goggml_gguf_kv_result goggml_gguf_kv_at(const struct gguf_context *gguf, int64_t id);
// Points out[0 … n-1] to the elements first … first+n-1 of an array of strings.
goggml_error goggml_gguf_strings(const struct gguf_context *gguf, int64_t id, size_t first, size_t n, const char **out);

goggml_error goggml_gguf_set(struct gguf_context *gguf, const char *key, enum gguf_type type, const void *value);
goggml_error goggml_gguf_set_array(struct gguf_context *gguf, const char *key, enum gguf_type type, const void *data, size_t n);
// text contains n strings, each with its terminator.
goggml_error goggml_gguf_set_strings(struct gguf_context *gguf, const char *key, const char *text, size_t n);
goggml_error goggml_gguf_set_kv(struct gguf_context *gguf, const struct gguf_context *src);
goggml_error goggml_gguf_remove(struct gguf_context *gguf, const char *key);

goggml_gguf_info_result goggml_gguf_info_at(const struct gguf_context *gguf, int64_t id);
goggml_error goggml_gguf_add(struct gguf_context *gguf, const char *name, enum ggml_type type, const int64_t *ne);

goggml_error goggml_gguf_set_tensor_type(struct gguf_context *gguf, const char *name, enum ggml_type type);

goggml_int goggml_gguf_meta_size(const struct gguf_context *gguf);
goggml_error goggml_gguf_meta_data(const struct gguf_context *gguf, void *out);

goggml_int goggml_quantize(enum ggml_type type, const float *src, void *dst, int64_t rows, int64_t row_len, const float *importance);
goggml_error goggml_dequantize(enum ggml_type type, const void *src, float *dst, int64_t n);

#endif
