//go:build ignore

#include "arena.h"

#include <stdlib.h>

goggml_arena *goggml_arena_new(void) {
	goggml_arena *arena = calloc(1, sizeof *arena);
	if (arena != NULL) {
		arena->next_size = 4 * GOGGML_OP_ROOM;
	}
	return arena;
}

void goggml_arena_free(goggml_arena *arena) {
	if (arena == NULL) {
		return;
	}
	for (int i = 0; i < arena->n_chunks; i++) {
		ggml_free(arena->chunks[i]);
	}
	free(arena->chunks);
	free(arena);
}

struct ggml_context *goggml_arena_room(goggml_arena *arena, size_t bytes) {
	if (arena->n_chunks > 0) {
		struct ggml_context *last = arena->chunks[arena->n_chunks - 1];
		if (ggml_get_mem_size(last) - ggml_used_mem(last) >= bytes) {
			return last;
		}
	}
	struct ggml_context **grown = realloc(arena->chunks, (arena->n_chunks + 1) * sizeof *grown);
	if (grown == NULL) {
		GGML_ABORT("out of memory");
	}
	arena->chunks = grown;
	struct ggml_init_params params = {
		.mem_size = bytes > arena->next_size ? bytes : arena->next_size,
		.no_alloc = true,
	};
	struct ggml_context *chunk = ggml_init(params);
	if (chunk == NULL) {
		GGML_ABORT("out of memory: a context of %zu bytes", params.mem_size);
	}
	arena->chunks[arena->n_chunks++] = chunk;
	arena->allocated += params.mem_size;
	if (arena->next_size < ((size_t)4 << 20)) {
		arena->next_size *= 2;
	}
	return chunk;
}

size_t goggml_arena_used(const goggml_arena *arena) {
	size_t used = 0;
	for (int i = 0; i < arena->n_chunks; i++) {
		used += ggml_used_mem(arena->chunks[i]);
	}
	return used;
}

size_t goggml_arena_tensors(const goggml_arena *arena) {
	return goggml_arena_used(arena) / ggml_tensor_overhead() + 1;
}

static struct ggml_tensor *goggml_arena_from(const goggml_arena *arena, int *chunk) {
	for (; *chunk < arena->n_chunks; (*chunk)++) {
		struct ggml_tensor *tensor = ggml_get_first_tensor(arena->chunks[*chunk]);
		if (tensor != NULL) {
			return tensor;
		}
	}
	return NULL;
}

struct ggml_tensor *goggml_arena_first(const goggml_arena *arena, int *chunk) {
	*chunk = 0;
	return goggml_arena_from(arena, chunk);
}

struct ggml_tensor *goggml_arena_next(const goggml_arena *arena, int *chunk, struct ggml_tensor *tensor) {
	struct ggml_tensor *next = ggml_get_next_tensor(arena->chunks[*chunk], tensor);
	if (next != NULL) {
		return next;
	}
	(*chunk)++;
	return goggml_arena_from(arena, chunk);
}

bool goggml_arena_owns(const goggml_arena *arena, const struct ggml_tensor *tensor) {
	for (int i = 0; i < arena->n_chunks; i++) {
		const char *start = ggml_get_mem_buffer(arena->chunks[i]);
		if ((const char *)tensor >= start && (const char *)tensor < start + ggml_get_mem_size(arena->chunks[i])) {
			return true;
		}
	}
	return false;
}

static _Atomic uint64_t goggml_memory_count;

void goggml_memory_changed(void) { goggml_memory_count++; }
uint64_t goggml_memory_version(void) { return goggml_memory_count; }

void goggml_arena_detach(const goggml_arena *arena, ggml_backend_buffer_t buffer) {
	goggml_memory_changed();
	int chunk;
	for (struct ggml_tensor *t = goggml_arena_first(arena, &chunk); t != NULL; t = goggml_arena_next(arena, &chunk, t)) {
		if (buffer == NULL || t->buffer == buffer) {
			t->buffer = NULL;
			t->data = NULL;
		}
	}
}
