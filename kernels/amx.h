// Tiles of AMX, whose configuration belongs to the thread.
#ifndef KERN_AMX_H
#define KERN_AMX_H

#include <stdbool.h>
#include <stdint.h>

struct kern_tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

// The configuration that another one replaces for a while.
struct kern_tiles {
	bool replaced;
	struct kern_tile_config before;
};

// Sets a configuration, unless it is NULL. kern_tiles_restore puts back the one before: other libraries keep theirs for the thread
// from call to call.
struct kern_tiles kern_tiles_configure(const struct kern_tile_config *config);
void kern_tiles_restore(const struct kern_tiles *tiles);

#endif
