#include "gemm_int.h"
#include "chunks.h"
#include "gemm_ukr.h"
#include "scratch.h"
#include "tile.h"
#include "vector.h"

enum { KERN_MIN_CHUNKS_INT = 8 }; // to give several threads work

const char *kern_integer_instructions(void) { return kern_find_ukrs()->name; }

bool kern_has_i8(void) { return kern_find_ukrs()->i8 != NULL; }

// How weights are rounded, and multiplied.
struct kern_integers {
	int64_t step;
	void (*pack_a)(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel);
	kern_ukr ukr;
	const struct kern_tile_config *tiles;
};

// Only gradients multiply weights in 8 bits.
static struct kern_integers kern_integers(bool grad_input, bool i8) {
	const struct kern_ukrs *ukrs = kern_find_ukrs();
	if (i8) {
		return (struct kern_integers){KERN_STEP_I8, kern_pack_a_i8, ukrs->i8, ukrs->tiles};
	}
	return (struct kern_integers){KERN_STEP_I16, grad_input ? kern_pack_a_i16 : kern_pack_a_transposed_i16, ukrs->i16, NULL};
}

static int64_t kern_blocks(int64_t depth) { return kern_ceil_div(depth, KERN_KB); }

// Returns the bytes of a panel of B for a block, and for the whole depth.
static int64_t kern_block_bytes(bool i8) { return kern_panel_b_bytes(KERN_KB / (i8 ? KERN_STEP_I8 : KERN_STEP_I16)); }
static int64_t kern_columns_bytes(int64_t depth, bool i8) { return kern_blocks(depth) * kern_block_bytes(i8); }

int64_t kern_packed_bytes(int64_t depth, int64_t n, bool i8) {
	return kern_ceil_div(n, KERN_NR) * kern_columns_bytes(depth, i8);
}

// Returns columns of X in F32, which begin at depth k0; *ld is their leading dimension.
static const float *kern_columns_f32(const struct ggml_tensor *x, int64_t matrix, int64_t n0, int64_t n, int64_t k0, int64_t k, int64_t *ld) {
	const char *from = (const char *)kern_matrix(x, matrix) + (n0 * x->ne[0] + k0) * ggml_type_size(x->type);
	if (x->type == GGML_TYPE_F32) {
		*ld = x->ne[0];
		return (const float *)from;
	}
	*ld = k;
	float *columns = kern_scratch(KERN_SCRATCH_ROW, n * k * sizeof *columns);
	for (int64_t j = 0; j < n; j++) {
		kern_to_f32(x->type)((const uint16_t *)from + j * x->ne[0], columns + j * k, k);
	}
	return columns;
}

void kern_pack_columns(const struct ggml_tensor *x, int64_t matrix, int64_t n0, int64_t n1, bool i8, void *packed) {
	int64_t depth = x->ne[0], bytes = kern_block_bytes(i8);
	char *panel = packed;
	for (; n0 < n1; n0 += KERN_NR) {
		for (int64_t k0 = 0; k0 < depth; k0 += KERN_KB, panel += bytes) {
			int64_t n = kern_min(KERN_NR, n1 - n0), k = kern_min(KERN_KB, depth - k0), ld;
			const float *from = kern_columns_f32(x, matrix, n0, n, k0, k, &ld);
			memset(panel, 0, bytes); // all bytes of a result are a function of its operands, in gaps of the struct too
			if (i8) {
				kern_pack_b_i8(from, ld, n, k, kern_find_ukrs()->tiles != NULL, (struct kern_panel_b *)panel);
			} else {
				kern_pack_b_i16(from, ld, n, k, (struct kern_panel_b *)panel);
			}
		}
	}
}

static void kern_pack(struct ggml_tensor *dst, bool i8, int nth) {
	const struct ggml_tensor *x = dst->src[0];
	int64_t n = x->ne[1], panels = kern_ceil_div(n, KERN_NR), bytes = kern_columns_bytes(x->ne[0], i8);
	for (int64_t i; (i = kern_next_chunk(dst, panels * x->ne[2] * x->ne[3], nth)) >= 0;) {
		int64_t matrix = i / panels, n0 = i % panels * KERN_NR;
		kern_pack_columns(x, matrix, n0, kern_min(n, n0 + KERN_NR), i8, (char *)dst->data + matrix * dst->nb[1] + i % panels * bytes);
	}
}

KERN_OP(pack_int) {
	(void)ith, (void)userdata;
	kern_pack(dst, false, nth);
}

KERN_OP(pack_i8) {
	(void)ith, (void)userdata;
	kern_pack(dst, true, nth);
}

// C [m, n] += or = A·B in F32, for a block that is not rounded. Rows of A are row elements apart, depths lda elements.
KERN_CLONES static void kern_multiply_f32(int64_t depth, const float *a, int64_t row, int64_t lda, const float *b, int64_t ldb,
		float *restrict c, int64_t ldc, int64_t m, int64_t n, bool accumulate) {
	for (int64_t j = 0; j < n; j++, b += ldb, c += ldc) {
		float sums[KERN_MR] = {0};
		for (int64_t d = 0; d < depth; d++) {
			for (int64_t i = 0; i < m; i++) { sums[i] += a[d * lda + i * row] * b[d]; }
		}
		for (int64_t i = 0; i < m; i++) { c[i] = accumulate ? c[i] + sums[i] : sums[i]; }
	}
}

// Multiplies a micro-tile of [m, n] elements.
static void kern_multiply_packed(kern_ukr ukr, int64_t steps, const struct kern_panel_a *a, const struct kern_panel_b *b,
		float *c, int64_t ldc, int64_t m, int64_t n, bool accumulate) {
	if (m == KERN_MR && n == KERN_NR) {
		ukr(steps, a, b, c, ldc, accumulate);
		return;
	}
	float whole[KERN_NR * KERN_MR];
	ukr(steps, a, b, whole, KERN_MR, false);
	for (int64_t j = 0; j < n; j++) {
		for (int64_t i = 0; i < m; i++) {
			c[j * ldc + i] = accumulate ? c[j * ldc + i] + whole[j * KERN_MR + i] : whole[j * KERN_MR + i];
		}
	}
}

// Rows of a weight in F32: distances of rows and of depths are in elements, and so is the leading dimension.
struct kern_rows_f32 {
	const float *from;
	int64_t row, depth, ld;
};

// Returns the rows [m0, m1) of a product's weight for a block of depths [k0, k1).
static struct kern_rows_f32 kern_block_rows(const struct kern_product_int *p, int64_t m0, int64_t m1, int64_t k0, int64_t k1) {
	int64_t ld;
	if (p->grad_input) { // rows lie along the weight's, of which whole blocks are dequantised
		int64_t block = ggml_blck_size(p->w->type), first = m0 / block * block, end = kern_min(p->m1, kern_ceil_div(m1, block) * block);
		const float *from = kern_weight_tile(p->w, p->w_matrix, GGML_TYPE_F32, first, end, k0, k1, &ld);
		return (struct kern_rows_f32){from + m0 - first, 1, ld, ld};
	}
	const float *from = kern_weight_tile(p->w, p->w_matrix, GGML_TYPE_F32, k0, k1, m0, m1, &ld);
	return (struct kern_rows_f32){from, ld, 1, ld};
}

// Multiplies a micro-tile at row i of the chunk and column j by depths [k0, k1). Panels of A for their blocks are a_block bytes
// apart, and panels of B follow each other.
static void kern_multiply_tile(const struct kern_product_int *p, const struct kern_integers *in, int64_t k0, int64_t k1, int64_t i, int64_t j,
		const char *a, int64_t a_block, const char *b, bool accumulate) {
	int64_t m = kern_min(KERN_MR, p->m1 - p->m0 - i), n = kern_min(KERN_NR, p->n1 - j);
	float *to = p->c + (j - p->n0) * p->ldc + i;
	for (int64_t k = k0; k < k1; k += KERN_KB, a += a_block, b += kern_block_bytes(p->i8), accumulate = true) {
		const struct kern_panel_a *rows = (const struct kern_panel_a *)a;
		_Alignas(64) char memory[KERN_PANEL_I8];
		const struct kern_panel_b *columns = kern_arrange((const struct kern_panel_b *)b, in->tiles != NULL, memory);
		int64_t depth = kern_min(KERN_KB, k1 - k);
		if (rows->uneven || columns->uneven) {
			int64_t ldx;
			struct kern_rows_f32 w = kern_block_rows(p, p->m0 + i, p->m0 + i + m, k, k + depth);
			const float *x = kern_columns_f32(p->x, p->x_matrix, j, n, k, depth, &ldx);
			kern_multiply_f32(depth, w.from, w.row, w.depth, x, ldx, to, p->ldc, m, n, accumulate);
		} else {
			kern_multiply_packed(in->ukr, kern_padded_depth(depth) / in->step, rows, columns, to, p->ldc, m, n, accumulate);
		}
	}
}

// The macro-kernel for depths [k0, k1) of at most KERN_KC_INT. A micro-tile of C takes all their blocks while it is in the cache.
static void kern_multiply_depths(const struct kern_product_int *p, int64_t k0, int64_t k1, bool accumulate) {
	struct kern_integers in = kern_integers(p->grad_input, p->i8);
	int64_t m_all = p->m1 - p->m0, a_bytes = kern_panel_a_bytes(KERN_KB / in.step), a_block = kern_ceil_div(m_all, KERN_MR) * a_bytes;
	int64_t b_bytes = kern_block_bytes(p->i8);
	char *a = kern_scratch(KERN_SCRATCH_FACTORS, kern_blocks(k1 - k0) * a_block), *rows = a;
	for (int64_t k = k0; k < k1; k += KERN_KB, rows += a_block) {
		int64_t depth = kern_min(KERN_KB, k1 - k);
		struct kern_rows_f32 w = kern_block_rows(p, p->m0, p->m1, k, k + depth);
		for (int64_t i = 0; i < m_all; i += KERN_MR) {
			in.pack_a(w.from + i * w.row, w.ld, kern_min(KERN_MR, m_all - i), depth, (struct kern_panel_a *)(rows + i / KERN_MR * a_bytes));
		}
	}
	struct kern_tiles tiles = kern_tiles_configure(in.tiles);
	const char *b = (const char *)p->packed + k0 / KERN_KB * b_bytes;
	for (int64_t j = p->n0; j < p->n1; j += KERN_NR, b += kern_columns_bytes(p->x->ne[0], p->i8)) {
		for (int64_t i = 0; i < m_all; i += KERN_MR) {
			kern_multiply_tile(p, &in, k0, k1, i, j, a + i / KERN_MR * a_bytes, a_block, b, accumulate);
		}
	}
	kern_tiles_restore(&tiles);
}

void kern_multiply_int(const struct kern_product_int *p) {
	int64_t depth = p->x->ne[0];
	for (int64_t k0 = 0; k0 < depth; k0 += KERN_KC_INT) {
		kern_multiply_depths(p, k0, kern_min(depth, k0 + KERN_KC_INT), p->accumulate || k0 > 0);
	}
}

// Halves a chunk's size until there are enough chunks for several threads, but not below the least size.
static int64_t kern_smaller(int64_t size, int64_t least, int64_t all, int64_t others) {
	while (size / 2 >= least && kern_ceil_div(all, size) * others < KERN_MIN_CHUNKS_INT) {
		size /= 2;
	}
	return size;
}

static void kern_gemm_int(struct ggml_tensor *dst, bool grad_input, bool i8, int nth) {
	int first = ((const struct kern_gemm_int_params *)kern_params(dst))->first;
	int64_t m = dst->ne[0], n = dst->ne[1], matrices = dst->ne[2] * dst->ne[3], least = KERN_MR;
	for (int i = first; grad_input && i + 2 < GGML_MAX_SRC && dst->src[i] != NULL; i += 3) {
		least = kern_max(least, ggml_blck_size(dst->src[i]->type)); // rows of the result lie along the weight's
	}
	int64_t nc = KERN_NC_INT, mc = kern_smaller(kern_max(KERN_MC_INT, least), least, m, kern_ceil_div(n, nc) * matrices);
	nc = kern_smaller(nc / KERN_NR, 1, kern_ceil_div(n, KERN_NR), kern_ceil_div(m, mc) * matrices) * KERN_NR;
	int64_t m_chunks = kern_ceil_div(m, mc), n_chunks = kern_ceil_div(n, nc);
	for (int64_t i; (i = kern_next_chunk(dst, m_chunks * n_chunks * matrices, nth)) >= 0;) {
		int64_t matrix = i / n_chunks / m_chunks, m0 = i / n_chunks % m_chunks * mc, n0 = i % n_chunks * nc;
		struct kern_product_int p = {
			.grad_input = grad_input, .i8 = i8, .w_matrix = matrix, .x_matrix = matrix,
			.m0 = m0, .m1 = kern_min(m, m0 + mc), .n0 = n0, .n1 = kern_min(n, n0 + nc),
			.c = (float *)kern_matrix(dst, matrix) + n0 * m + m0, .ldc = m, .accumulate = first > 0,
		};
		for (int s = first; s + 2 < GGML_MAX_SRC && dst->src[s] != NULL; s += 3, p.accumulate = true) {
			const struct ggml_tensor *packed = dst->src[s + 2];
			p.w = dst->src[s], p.x = dst->src[s + 1];
			p.packed = (const char *)packed->data + matrix * packed->nb[1] + n0 / KERN_NR * kern_columns_bytes(p.x->ne[0], i8);
			kern_multiply_int(&p);
		}
	}
}

KERN_OP(gemm_int) {
	(void)ith, (void)userdata;
	kern_gemm_int(dst, false, false, nth);
}

KERN_OP(gemm_grad_input_int) {
	(void)ith, (void)userdata;
	kern_gemm_int(dst, true, false, nth);
}

KERN_OP(gemm_grad_input_i8) {
	(void)ith, (void)userdata;
	kern_gemm_int(dst, true, true, nth);
}
