#include "selective_scan.h"
#include "chunks.h"
#include "isa.h"
#include "selective_scan_next.h"

// The fastest for the processor.
static kern_scan_next *kern_scan_find(void) {
#if defined(__x86_64__)
	return kern_isa_avx512() ? kern_scan_avx512 : kern_isa_avx2() ? kern_scan_avx2 : kern_scan_plain;
#else
	return kern_scan_plain;
#endif
}

// All tokens of a head. The state is in the written vector after the first tokens.
static void kern_scan_all(kern_scan_next *next, float *to, const float *from, struct kern_scan h) {
	while (h.n > 0) {
		int64_t tokens = next(to, from, &h);
		from = to, h.n -= tokens, h.dt += tokens * h.dt_stride;
		h.x = kern_head_from(h.x, tokens), h.b = kern_head_from(h.b, tokens), h.c = kern_head_from(h.c, tokens), h.y = kern_head_from(h.y, tokens);
	}
}

static struct kern_scan kern_scan_of(struct ggml_tensor *y, int64_t row, int64_t head) {
	const struct ggml_tensor *x = y->src[0], *dt = y->src[1], *a = y->src[2], *b = y->src[3], *c = y->src[4];
	int64_t group = head / (x->ne[1] / b->ne[1]);
	const struct kern_scan_params *p = kern_params(y);
	const struct ggml_tensor *skip = kern_optional(y, p->d);
	return (struct kern_scan){
		.x = kern_head_of(x, head, row), .b = kern_head_of(b, group, row), .c = kern_head_of(c, group, row), .y = kern_head_of(y, head, row),
		.dt = (const float *)((const char *)dt->data + row * dt->nb[2]) + head, .dt_stride = dt->nb[1] / sizeof(float),
		.a = ((const float *)a->data)[head], .skip = skip == NULL ? 0 : ((const float *)skip->data)[head],
		.size = x->ne[0], .d = b->ne[0], .n = x->ne[2],
	};
}

// The vector of a row by its number; NULL if there is none of that number.
static float *kern_scan_vector(const struct ggml_tensor *states, const struct ggml_tensor *numbers, int64_t row) {
	int32_t number = ((const int32_t *)numbers->data)[row];
	return number < 0 || number >= states->ne[1] ? NULL : (float *)states->data + number * states->ne[0];
}

static void kern_scan_unknown(const struct kern_scan *h) {
	for (int64_t k = 0; k < h->n; k++) {
		for (int64_t i = 0; i < h->size; i++) {
			kern_vector(h->y, k)[i] = NAN;
		}
	}
}

// A head of a row.
static void kern_scan_head(kern_scan_next *next, struct ggml_tensor *y, int64_t row, int64_t head) {
	const struct ggml_tensor *states = y->src[5];
	float *from = kern_scan_vector(states, y->src[6], row), *to = kern_scan_vector(states, y->src[7], row);
	int64_t at = states->ne[0] / y->ne[1] * head;
	struct kern_scan h = kern_scan_of(y, row, head);
	if (from == NULL || to == NULL) {
		kern_scan_unknown(&h);
	} else {
		kern_scan_all(next, to + at, from + at, h);
	}
}

// A chunk is a head of all rows, so that rows with a vector in common follow each other.
KERN_OP(selective_scan) {
	(void)userdata;
	(void)ith;
	kern_scan_next *next = kern_scan_find();
	for (int64_t head; (head = kern_next_chunk(dst, dst->ne[1], nth)) >= 0;) {
		for (int64_t row = 0; row < dst->ne[3]; row++) {
			kern_scan_head(next, dst, row, head);
		}
	}
}
