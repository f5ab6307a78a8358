#include "gemm.h"
#include "chunks.h"
#include "library.h"
#include "low_rank.h"
#include "scratch.h"
#include "transpose.h"

#include <string.h>

// Sizes of the largest chunk of a result [m, n], and the depth of a tile, named as in BLIS.
enum { KERN_MC = 256, KERN_NC = 512, KERN_KC = 512 };

enum {
	KERN_MC_MIN = 32,       // chunk heights are multiples of this
	KERN_MIN_CHUNKS = 8,    // to give several threads work
	KERN_MAX_PADDING = 32,  // the last chunk may lack at most this fraction (1/32) of all rows
	KERN_N_SKINNY = 64,     // a result with up to this many columns is skinny
};

// The division of a result of m × n elements and a number of matrices into chunks.
struct kern_partition {
	int64_t m, mc, n, nc, count;
};

// Returns the number of parts of equal height, at least least, into which rows of units divide with
// little padding. It is even: with an odd number, or a short last part, one of two threads would
// get less.
static int64_t kern_even_parts(int64_t units, int64_t least) {
	int64_t parts = least + least % 2, best = parts, best_padding = units;
	for (; parts <= 2 * least && best_padding > units / KERN_MAX_PADDING; parts += 2) {
		int64_t padding = kern_ceil_div(units, parts) * parts - units;
		if (padding < best_padding) {
			best = parts;
			best_padding = padding;
		}
	}
	return best;
}

// Chunks are as large as possible, at most mc × nc, if there are KERN_MIN_CHUNKS of them. Their
// height is a multiple of mc_min. They do not depend on the number of threads: otherwise the GEMM
// library's sums would differ in the last bit.
static struct kern_partition kern_partition(int64_t m, int64_t n, int64_t matrices, int64_t mc_min, int64_t mc, int64_t nc) {
	struct kern_partition p = {.m = m, .n = n, .mc = mc, .nc = nc};
	int64_t tallest = kern_ceil_div(n, nc) * matrices; // number of chunks of full height
	if (tallest < KERN_MIN_CHUNKS) {
		int64_t units = kern_ceil_div(m, mc_min), parts = kern_max(kern_ceil_div(KERN_MIN_CHUNKS, tallest), kern_ceil_div(m, mc));
		p.mc = kern_ceil_div(units, tallest % 2 == 1 ? kern_even_parts(units, parts) : parts) * mc_min;
		parts = kern_ceil_div(KERN_MIN_CHUNKS, kern_ceil_div(m, p.mc) * matrices);
		p.nc = kern_min(nc, kern_max(kern_ceil_div(n, parts), KERN_MC_MIN));
	}
	p.count = kern_ceil_div(m, p.mc) * kern_ceil_div(n, p.nc) * matrices;
	return p;
}

static struct kern_chunk kern_chunk_at(const struct kern_partition *p, int64_t i) {
	int64_t n_chunks = kern_ceil_div(p->n, p->nc), m_chunks = kern_ceil_div(p->m, p->mc);
	int64_t n0 = i % n_chunks * p->nc, m0 = i / n_chunks % m_chunks * p->mc;
	return (struct kern_chunk){
		.m0 = m0, .m1 = kern_min(p->m, m0 + p->mc),
		.n0 = n0, .n1 = kern_min(p->n, n0 + p->nc),
		.matrix = i / n_chunks / m_chunks,
	};
}

const void *kern_chunk_tile(const struct ggml_tensor *w, const struct kern_chunk *chunk, enum ggml_type type,
		bool grad_input, int64_t k0, int64_t k1, int64_t *ld) {
	return grad_input ?
		kern_weight_tile(w, chunk->matrix, type, chunk->m0, chunk->m1, k0, k1, ld) :
		kern_weight_tile(w, chunk->matrix, type, k0, k1, chunk->m0, chunk->m1, ld);
}

void kern_accumulate(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct kern_accumulator *acc,
		bool grad_input, const struct kern_chunk *chunk, bool accumulate) {
	int64_t depth = grad_input ? w->ne[1] : w->ne[0], m = chunk->m1 - chunk->m0, n = chunk->n1 - chunk->n0;
	// Each call has some overhead, and all but the first read C again; a deeper tile in F32 would leave the cache.
	int64_t most = n <= KERN_N_SKINNY || x->type == GGML_TYPE_BF16 ? 2 * KERN_KC : KERN_KC;
	int64_t unit = kern_max(KERN_MC_MIN, ggml_blck_size(w->type));
	int64_t kc = kern_ceil_div(kern_ceil_div(depth, kern_ceil_div(depth, most)), unit) * unit; // equal parts
	size_t size = ggml_type_size(x->type);
	const char *columns = (const char *)kern_matrix(x, chunk->matrix) + chunk->n0 * x->ne[0] * size;
	for (int64_t k0 = 0; k0 < depth; k0 += kc, columns += kc * size) {
		int64_t k1 = kern_min(depth, k0 + kc), ld;
		const void *tile = kern_chunk_tile(w, chunk, x->type, grad_input, k0, k1, &ld);
		struct kern_gemm g = {
			.bf16 = x->type == GGML_TYPE_BF16, .trans_a = !grad_input, .accumulate = accumulate || k0 > 0,
			.m = m, .n = n, .k = k1 - k0, .lda = ld, .ldb = x->ne[0], .ldc = acc->ldc,
		};
		if (acc->transposed) {
			g.m = n, g.n = m, g.lda = x->ne[0], g.ldb = ld;
		}
		kern_library_gemm(&g, acc->transposed ? columns : tile, acc->transposed ? tile : columns, acc->c);
	}
}

// oneDNN's BF16 GEMM repacks A, but B only if it is transposed. So the weight tile is passed as B,
// computing Yᵀ, which is transposed back. This pays off if the result is skinny; and with AMX, whose
// products are so fast that repacking counts, if it has KERN_MIN_CHUNKS large chunks and deep sums.
static bool kern_uses_transposed_gemm(const struct ggml_tensor *dst) {
	enum { K_DEEP = 2048 };
	int64_t chunks = kern_ceil_div(dst->ne[0], KERN_MC) * kern_ceil_div(dst->ne[1], KERN_NC / 2) * dst->ne[2] * dst->ne[3];
	return dst->src[1]->type == GGML_TYPE_BF16 &&
		(dst->ne[1] <= KERN_N_SKINNY || kern_library_amx() && chunks >= KERN_MIN_CHUNKS && dst->src[0]->ne[0] >= K_DEEP);
}

// Adds the products B·H of a chunk's rows to its accumulator.
static void kern_accumulate_lora(const struct ggml_tensor *dst, const struct kern_accumulator *acc, const struct kern_chunk *chunk) {
	enum ggml_type h_type = ((const struct kern_gemm_params *)kern_params(dst))->h_type;
	int64_t first = 0;
	for (int i = 2; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t m0 = kern_max(chunk->m0, first), m1 = kern_min(chunk->m1, first + b->ne[0]);
		if (m0 < m1) {
			struct kern_accumulator part = *acc;
			part.c += (m0 - chunk->m0) * (acc->transposed ? acc->ldc : 1);
			kern_accumulate_low_rank(b, dst->src[i + 1], h_type, &part, m0 - first, m1 - first, chunk->n0, chunk->n1);
		}
		first += b->ne[0];
	}
}

static bool kern_acc_f16(const struct ggml_tensor *dst) {
	return ((const struct kern_gemm_params *)kern_params(dst))->acc_f16;
}

// Weights in F32 have more bits than F16, and are mostly trained: F32 is kept.
static bool kern_multiplies_f16(const struct ggml_tensor *dst, const struct ggml_tensor *w, const struct ggml_tensor *x) {
	return w->type != GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && kern_acc_f16(dst);
}

// The product that an op computes.
enum kern_product { KERN_GEMM, KERN_GEMM_GRAD_INPUT, KERN_GEMM_LORA };

static void kern_compute_chunk(struct ggml_tensor *dst, enum kern_product product, const struct kern_chunk *chunk, bool transposed) {
	int64_t m = chunk->m1 - chunk->m0, n = chunk->n1 - chunk->n0;
	float *result = (float *)kern_matrix(dst, chunk->matrix) + chunk->n0 * dst->ne[0] + chunk->m0;
	struct kern_accumulator acc = {.c = result, .ldc = dst->ne[0], .transposed = transposed};
	// Separate accumulator: with F16 sums it is read and written for every KERN_KC_F16 of the
	// depth, and stays in the cache because its columns are adjacent; the columns of the result are
	// a leading dimension apart.
	bool separate = transposed || kern_acc_f16(dst);
	if (separate) {
		acc.c = kern_scratch(KERN_SCRATCH_ACCUMULATOR, m * n * sizeof *acc.c);
		acc.ldc = transposed ? n : m;
	}
	int end = product == KERN_GEMM_LORA ? 2 : GGML_MAX_SRC;
	for (int i = 0; i < end && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *w = dst->src[i], *x = dst->src[i + 1];
		(kern_multiplies_f16(dst, w, x) ? kern_accumulate_f16 : kern_accumulate)(
			w, x, &acc, product == KERN_GEMM_GRAD_INPUT, chunk, i > 0);
	}
	if (product == KERN_GEMM_LORA) {
		kern_accumulate_lora(dst, &acc, chunk);
	}
	if (transposed) {
		kern_transpose(acc.c, m, n, result, dst->ne[0]);
	} else if (separate) {
		for (int64_t i = 0; i < n; i++) {
			memcpy(result + i * dst->ne[0], acc.c + i * m, m * sizeof *result);
		}
	}
}

static void kern_compute(struct ggml_tensor *dst, enum kern_product product, int nth) {
	bool transposed = product != KERN_GEMM_GRAD_INPUT && kern_uses_transposed_gemm(dst);
	int64_t mc_min = transposed && dst->ne[1] > KERN_N_SKINNY ? KERN_MC : KERN_MC_MIN;
	for (int i = 0; product == KERN_GEMM_GRAD_INPUT && i < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		mc_min = kern_max(mc_min, ggml_blck_size(dst->src[i]->type));
	}
	bool f16 = kern_acc_f16(dst);
	struct kern_partition p = kern_partition(dst->ne[0], dst->ne[1], dst->ne[2] * dst->ne[3], mc_min,
		f16 ? KERN_MC_F16 : KERN_MC, f16 ? KERN_NC_F16 : KERN_NC);
	for (int64_t i; (i = kern_next_chunk(dst, p.count, nth)) >= 0;) {
		struct kern_chunk chunk = kern_chunk_at(&p, i);
		kern_compute_chunk(dst, product, &chunk, transposed);
	}
}

KERN_OP(gemm) {
	(void)ith, (void)userdata;
	kern_compute(dst, KERN_GEMM, nth);
}

KERN_OP(gemm_grad_input) {
	(void)ith, (void)userdata;
	kern_compute(dst, KERN_GEMM_GRAD_INPUT, nth);
}

KERN_OP(gemm_lora) {
	(void)ith, (void)userdata;
	kern_compute(dst, KERN_GEMM_LORA, nth);
}

// dW [k, m] = X [k, n] · dY [m, n]ᵀ, or += with accumulate.
static void kern_grad_weight(const struct ggml_tensor *x, const struct ggml_tensor *dy, struct ggml_tensor *dw, bool accumulate, int nth) {
	int64_t k = x->ne[0], m = dy->ne[0];
	size_t size = ggml_type_size(x->type);
	struct kern_partition p = kern_partition(k, m, dw->ne[2] * dw->ne[3], KERN_MC_MIN, KERN_MC, KERN_NC);
	for (int64_t i; (i = kern_next_chunk(dw, p.count, nth)) >= 0;) {
		struct kern_chunk chunk = kern_chunk_at(&p, i);
		struct kern_gemm g = {
			.bf16 = x->type == GGML_TYPE_BF16, .trans_b = true, .accumulate = accumulate,
			.m = chunk.m1 - chunk.m0, .n = chunk.n1 - chunk.n0, .k = x->ne[1], .lda = k, .ldb = m, .ldc = k,
		};
		kern_library_gemm(&g, (const char *)kern_matrix(x, chunk.matrix) + chunk.m0 * size,
			(const char *)kern_matrix(dy, chunk.matrix) + chunk.n0 * size, (float *)kern_matrix(dw, chunk.matrix) + chunk.n0 * k + chunk.m0);
	}
}

KERN_OP(gemm_grad_weight) {
	(void)ith, (void)userdata;
	kern_grad_weight(dst->src[0], dst->src[1], dst, false, nth);
}

KERN_OP(accumulate_grad_weight) {
	(void)ith, (void)userdata;
	kern_grad_weight(dst->src[1], dst->src[2], dst, true, nth);
}
