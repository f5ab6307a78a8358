// A hash table that numbers pointers, and the hash function of csrc.
#ifndef GOGGML_PTR_TABLE_H
#define GOGGML_PTR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Mixes a word into a hash. The factor is 2⁶⁴ divided by the golden ratio
// (Fibonacci hashing).
static inline uint64_t goggml_hash_mix(uint64_t hash, uint64_t word) {
	hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 29;
}

// Open addressing with linear probing; it does not grow.
typedef struct {
	struct goggml_ptr_slot {
		const void *key; // NULL in a free slot
		uint32_t number;
	} *slots;
	size_t mask; // the number of slots, a power of two, less one
	uint32_t count;
} goggml_ptr_table;

// Makes an empty table for up to n pointers; false when there is no memory.
bool goggml_ptr_table_init(goggml_ptr_table *table, size_t n);
// The number of a pointer other than NULL. New ones are numbered from 1 on, in the order in which they come.
uint32_t goggml_ptr_table_number(goggml_ptr_table *table, const void *key);
// Reports whether the table has a pointer other than NULL.
bool goggml_ptr_table_has(const goggml_ptr_table *table, const void *key);
void goggml_ptr_table_free(goggml_ptr_table *table);

#endif
