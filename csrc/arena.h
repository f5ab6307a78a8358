// An arena is a ggml context that grows: a list of contexts of fixed size. New objects go into the
// last one.
#ifndef GOGGML_ARENA_H
#define GOGGML_ARENA_H

#include "guard.h"

typedef struct {
	struct ggml_context **chunks;
	int n_chunks;
	size_t next_size; // size of the next chunk in bytes
	size_t allocated; // size of all chunks in bytes
} goggml_arena;

// Room for the tensors that one op may create.
#define GOGGML_OP_ROOM (16 * ggml_tensor_overhead())

goggml_arena *goggml_arena_new(void);
void goggml_arena_free(goggml_arena *arena);

// Returns a context with room for bytes bytes. Aborts if memory is short, so it must be called
// inside a guard.
struct ggml_context *goggml_arena_room(goggml_arena *arena, size_t bytes);

// Returns an upper bound of the number of tensors in the arena.
size_t goggml_arena_tensors(const goggml_arena *arena);

// Returns the bytes used in the chunks.
size_t goggml_arena_used(const goggml_arena *arena);

struct ggml_tensor *goggml_arena_first(const goggml_arena *arena, int *chunk);
struct ggml_tensor *goggml_arena_next(const goggml_arena *arena, int *chunk, struct ggml_tensor *tensor);

// Reports whether the tensor lies in the arena.
bool goggml_arena_owns(const goggml_arena *arena, const struct ggml_tensor *tensor);

// The memory version counts the changes of the memory of any tensors, so that a check of a graph
// can be cached. Functions that allocate tensors or make them unallocated call
// goggml_memory_changed before.
void goggml_memory_changed(void);
uint64_t goggml_memory_version(void);

// Makes the tensors in the buffer unallocated; all tensors for NULL.
void goggml_arena_detach(const goggml_arena *arena, ggml_backend_buffer_t buffer);

#endif
