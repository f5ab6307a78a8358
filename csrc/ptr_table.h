// A hash table that numbers pointers, and the hash function of csrc.
#ifndef GOGGML_PTR_TABLE_H
#define GOGGML_PTR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Mixes a word into a hash. The factor is 2⁶⁴ divided by the golden ratio (Fibonacci hashing).
static inline uint64_t goggml_hash_mix(uint64_t hash, uint64_t word) {
	hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 29;
}

// Open addressing with linear probing; the table does not grow.
typedef struct {
	struct goggml_ptr_slot {
		const void *key; // NULL in a free slot
		uint32_t number;
	} *slots;
	size_t mask; // number of slots, a power of two, minus one
	uint32_t count;
} goggml_ptr_table;

// Makes an empty table for up to n pointers; returns false if memory is short.
bool goggml_ptr_table_init(goggml_ptr_table *table, size_t n);
// Returns the number of a pointer, which must not be NULL. New pointers are numbered from 1 in
// order of arrival.
uint32_t goggml_ptr_table_number(goggml_ptr_table *table, const void *key);
// Reports whether the table contains a pointer, which must not be NULL.
bool goggml_ptr_table_has(const goggml_ptr_table *table, const void *key);
void goggml_ptr_table_free(goggml_ptr_table *table);

#endif
