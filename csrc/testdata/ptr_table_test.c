// Numbers pointers from a small pool, as many as the table takes, and compares
// with a list. ptr_table_test.go builds and runs it.
#include "ptr_table.c"

#include <stdio.h>

enum { MOST = 3000 };

static const void *keys[MOST];
static uint32_t n_keys;

static uint32_t number_in_list(const void *key) {
	for (uint32_t i = 0; i < n_keys; i++) {
		if (keys[i] == key) {
			return i + 1;
		}
	}
	keys[n_keys] = key;
	return ++n_keys;
}

static int check(size_t most, uintptr_t stride) {
	goggml_ptr_table table;
	if (!goggml_ptr_table_init(&table, most)) {
		return fprintf(stderr, "no memory\n");
	}
	n_keys = 0;
	uint64_t random = most * stride;
	for (size_t i = 0; i < 4 * most; i++) {
		// Every pointer comes at least once.
		random = goggml_hash_mix(random, i);
		const void *key = (const void *)(stride * (1 + (i < most ? i : random % most)));
		uint32_t got = goggml_ptr_table_number(&table, key), want = number_in_list(key);
		if (got != want || table.count != n_keys) {
			return fprintf(stderr, "%zu pointers at distances of %zu: %p has the number %u of %u; want %u of %u\n",
				most, (size_t)stride, key, got, table.count, want, n_keys);
		}
	}
	goggml_ptr_table_free(&table);
	return 0;
}

int main(void) {
	const size_t most[] = {1, 48, 49, 768, MOST};
	const uintptr_t strides[] = {16, 368, 4096, (uintptr_t)1 << 20};
	for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
		for (size_t j = 0; j < sizeof strides / sizeof *strides; j++) {
			if (check(most[i], strides[j]) != 0) {
				return 1;
			}
		}
	}
	return 0;
}
