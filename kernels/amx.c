#include "amx.h"

#include <stddef.h>

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_AMX __attribute__((target("amx-tile")))

KERN_AMX struct kern_tiles kern_tiles_configure(const struct kern_tile_config *config) {
	struct kern_tiles tiles = {.replaced = config != NULL};
	if (tiles.replaced) {
		_tile_storeconfig(&tiles.before);
		_tile_loadconfig(config);
	}
	return tiles;
}

KERN_AMX void kern_tiles_restore(const struct kern_tiles *tiles) {
	if (tiles->replaced && tiles->before.palette == 0) {
		_tile_release();
	} else if (tiles->replaced) {
		_tile_loadconfig(&tiles->before);
	}
}

#else

struct kern_tiles kern_tiles_configure(const struct kern_tile_config *config) {
	(void)config;
	return (struct kern_tiles){false};
}

void kern_tiles_restore(const struct kern_tiles *tiles) { (void)tiles; }

#endif
