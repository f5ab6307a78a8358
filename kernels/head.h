// One head of a tensor F32 [size, heads, n, samples], for attention and recurrences.
#ifndef KERN_HEAD_H
#define KERN_HEAD_H

#include "kern.h"

// The vectors of a head: a matrix [size, n].
struct kern_head {
	float *data;
	int64_t ld;
};

static inline struct kern_head kern_head_of(const struct ggml_tensor *t, int64_t head, int64_t sample) {
	int64_t ld = t->ne[2] > 1 ? (int64_t)(t->nb[2] / sizeof(float)) : t->ne[0];
	return (struct kern_head){(float *)((char *)t->data + head * t->nb[1] + sample * t->nb[3]), ld};
}

static inline float *kern_vector(struct kern_head h, int64_t i) { return h.data + i * h.ld; }

// The vectors from one on.
static inline struct kern_head kern_head_from(struct kern_head h, int64_t i) { return (struct kern_head){kern_vector(h, i), h.ld}; }

#endif
