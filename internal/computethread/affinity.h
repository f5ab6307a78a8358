// The processors that the calling thread may run on (its affinity), with its scheduling policy and priority. A thread
// pool of ggml changes all three for the thread that computes with it.
#ifndef GOGGML_AFFINITY_H
#define GOGGML_AFFINITY_H

#include <stdbool.h>

typedef struct {
	bool known;
	int policy, priority;
	unsigned char cpus[128]; // a cpu_set_t
} goggml_affinity;

// Records nothing on systems other than Linux.
goggml_affinity goggml_affinity_save(void);
// Does nothing if nothing was recorded.
void goggml_affinity_restore(const goggml_affinity *affinity);

#endif
