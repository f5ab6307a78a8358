//go:build ignore

#include "ptr_table.h"

#include <stdlib.h>

bool goggml_ptr_table_init(goggml_ptr_table *table, size_t n) {
	size_t slots = 64;
	while (slots - slots / 4 < n) { // at most three quarters full
		slots *= 2;
	}
	*table = (goggml_ptr_table){.slots = calloc(slots, sizeof *table->slots), .mask = slots - 1};
	return table->slots != NULL;
}

static struct goggml_ptr_slot *goggml_ptr_table_slot(const goggml_ptr_table *table, const void *key) {
	size_t i = goggml_hash_mix(0, (uintptr_t)key) & table->mask;
	while (table->slots[i].key != NULL && table->slots[i].key != key) {
		i = (i + 1) & table->mask;
	}
	return &table->slots[i];
}

bool goggml_ptr_table_has(const goggml_ptr_table *table, const void *key) {
	return goggml_ptr_table_slot(table, key)->key != NULL;
}

uint32_t goggml_ptr_table_number(goggml_ptr_table *table, const void *key) {
	struct goggml_ptr_slot *slot = goggml_ptr_table_slot(table, key);
	if (slot->key == NULL) {
		*slot = (struct goggml_ptr_slot){key, ++table->count};
	}
	return slot->number;
}

void goggml_ptr_table_free(goggml_ptr_table *table) {
	free(table->slots);
}
