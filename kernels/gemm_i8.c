#include "gemm_i8.h"
#include "chunks.h"
#include "gemm_ukr_i8.h"
#include "scratch.h"
#include "tile.h"
#include "vector.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Rows and columns of the largest chunk, as in BLIS.
enum { KERN_MC_I8 = 256, KERN_NC_I8 = 43 * KERN_NR, KERN_MIN_CHUNKS_I8 = 8 };

// A micro-kernel with the name of its instructions, as ONEDNN_MAX_CPU_ISA allows them.
struct kern_instructions_i8 {
	const char *name;
	kern_ukr_i8 ukr;
};

#if defined(__x86_64__)

// Reports whether ONEDNN_MAX_CPU_ISA, which limits oneDNN too, is unset or begins with one of the names.
static bool kern_allowed(const char *const *names) {
	const char *most = getenv("ONEDNN_MAX_CPU_ISA");
	for (; most != NULL && *names != NULL; names++) {
		if (strncasecmp(most, *names, strlen(*names)) == 0) {
			return true;
		}
	}
	return most == NULL;
}

#define KERN_ALLOWED(...) kern_allowed((const char *const[]){"ALL", "DEFAULT", "AVX10", "AVX512_CORE_", __VA_ARGS__, NULL})

static struct kern_instructions_i8 kern_choose_i8(void) {
	if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && KERN_ALLOWED("AVX512_CORE_")) {
		return (struct kern_instructions_i8){"AVX512-VNNI", kern_gemm_avx512vnni_i8_32x12};
	}
	if (__builtin_cpu_supports("avxvnni") && KERN_ALLOWED("AVX512_CORE", "AVX2_VNNI")) {
		return (struct kern_instructions_i8){"AVX-VNNI", kern_gemm_avxvnni_i8_16x6};
	}
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && KERN_ALLOWED("AVX512_CORE", "AVX2")) {
		return (struct kern_instructions_i8){"AVX2", kern_gemm_avx2_i8_16x4};
	}
	return (struct kern_instructions_i8){""};
}

#else

static struct kern_instructions_i8 kern_choose_i8(void) { return (struct kern_instructions_i8){""}; }

#endif

static struct kern_instructions_i8 kern_i8;

static void kern_set_i8(void) { kern_i8 = kern_choose_i8(); }

static const struct kern_instructions_i8 *kern_find_i8(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_set_i8);
	return &kern_i8;
}

const char *kern_i8_name(void) { return kern_find_i8()->name; }

bool kern_has_i8(void) { return kern_find_i8()->ukr != NULL; }

static int64_t kern_blocks(int64_t depth) { return kern_ceil_div(depth, KERN_KB); }

int64_t kern_packed_bytes_i8(int64_t depth, int64_t n) {
	return kern_ceil_div(n, KERN_NR) * kern_blocks(depth) * (int64_t)sizeof(struct kern_panel_b);
}

// Returns columns of X in F32, which begin at depth k0; *ld is their leading dimension.
static const float *kern_columns_f32(const struct ggml_tensor *x, int64_t matrix, int64_t n0, int64_t n, int64_t k0, int64_t k, int64_t *ld) {
	const char *from = (const char *)kern_matrix(x, matrix) + (n0 * x->ne[0] + k0) * ggml_type_size(x->type);
	if (x->type == GGML_TYPE_F32) {
		*ld = x->ne[0];
		return (const float *)from;
	}
	*ld = k;
	float *columns = kern_scratch(KERN_SCRATCH_COLUMNS, n * k * sizeof *columns);
	for (int64_t j = 0; j < n; j++) {
		kern_to_f32(x->type)((const uint16_t *)from + j * x->ne[0], columns + j * k, k);
	}
	return columns;
}

KERN_OP(pack_i8) {
	(void)ith, (void)userdata;
	const struct ggml_tensor *x = dst->src[0];
	int64_t depth = x->ne[0], n = x->ne[1], panels = kern_ceil_div(n, KERN_NR), blocks = kern_blocks(depth);
	for (int64_t i; (i = kern_next_chunk(dst, panels * x->ne[2] * x->ne[3], nth)) >= 0;) {
		int64_t matrix = i / panels, n0 = i % panels * KERN_NR, columns = kern_min(KERN_NR, n - n0);
		struct kern_panel_b *panel = (struct kern_panel_b *)((char *)dst->data + matrix * dst->nb[1]) + i % panels * blocks;
		for (int64_t k0 = 0; k0 < depth; k0 += KERN_KB, panel++) {
			int64_t k = kern_min(KERN_KB, depth - k0), ld;
			const float *from = kern_columns_f32(x, matrix, n0, columns, k0, k, &ld);
			kern_pack_b(from, ld, columns, k, panel);
		}
	}
}

// The operands of a product, and the rows and columns of its result that are computed.
struct kern_product_i8 {
	const struct ggml_tensor *w, *x, *packed;
	int64_t matrix, m0, m1, n0, n1;
	bool accumulate;
};

// C [m, n] += or = A·B in F32, for a block that is not rounded.
KERN_CLONES static void kern_multiply_f32(int64_t depth, const float *a, int64_t lda, const float *b, int64_t ldb,
		float *restrict c, int64_t ldc, int64_t m, int64_t n, bool accumulate) {
	for (int64_t j = 0; j < n; j++, b += ldb, c += ldc) {
		float sums[KERN_MR] = {0};
		for (int64_t d = 0; d < depth; d++) {
			for (int64_t i = 0; i < m; i++) { sums[i] += a[d * lda + i] * b[d]; }
		}
		for (int64_t i = 0; i < m; i++) { c[i] = accumulate ? c[i] + sums[i] : sums[i]; }
	}
}

// Multiplies a micro-tile of [m, n] elements.
static void kern_multiply_packed(kern_ukr_i8 ukr, int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b,
		float *c, int64_t ldc, int64_t m, int64_t n, bool accumulate) {
	if (m == KERN_MR && n == KERN_NR) {
		ukr(quads, a, b, c, ldc, accumulate);
		return;
	}
	float whole[KERN_NR * KERN_MR];
	ukr(quads, a, b, whole, KERN_MR, false);
	for (int64_t j = 0; j < n; j++) {
		for (int64_t i = 0; i < m; i++) {
			c[j * ldc + i] = accumulate ? c[j * ldc + i] + whole[j * KERN_MR + i] : whole[j * KERN_MR + i];
		}
	}
}

// The macro-kernel: a block of depths [k0, k1) of a chunk, whose result c is of the whole matrix.
static void kern_multiply_block(kern_ukr_i8 ukr, const struct kern_product_i8 *p, int64_t k0, int64_t k1, float *c, int64_t ldc, bool accumulate) {
	int64_t depth = k1 - k0, ld, quads = kern_padded_depth(depth) / KERN_QUAD;
	const float *tile = kern_weight_tile(p->w, p->matrix, GGML_TYPE_F32, p->m0, p->m1, k0, k1, &ld);
	struct kern_panel_a *a = kern_scratch(KERN_SCRATCH_FACTORS, kern_ceil_div(p->m1 - p->m0, KERN_MR) * sizeof *a);
	for (int64_t i = 0; i < p->m1 - p->m0; i += KERN_MR) {
		kern_pack_a(tile + i, ld, kern_min(KERN_MR, p->m1 - p->m0 - i), depth, &a[i / KERN_MR]);
	}
	int64_t blocks = kern_blocks(p->w->ne[1]);
	const struct kern_panel_b *b = (const void *)((const char *)p->packed->data + p->matrix * p->packed->nb[1]);
	b += p->n0 / KERN_NR * blocks + k0 / KERN_KB;
	for (int64_t j = p->n0; j < p->n1; j += KERN_NR, b += blocks) {
		int64_t n = kern_min(KERN_NR, p->n1 - j);
		for (int64_t i = p->m0; i < p->m1; i += KERN_MR) {
			const struct kern_panel_a *rows = &a[(i - p->m0) / KERN_MR];
			int64_t m = kern_min(KERN_MR, p->m1 - i);
			float *to = c + j * ldc + i;
			if (rows->uneven || b->uneven) {
				int64_t ldx;
				const float *x = kern_columns_f32(p->x, p->matrix, j, n, k0, depth, &ldx);
				kern_multiply_f32(depth, tile + i - p->m0, ld, x, ldx, to, ldc, m, n, accumulate);
			} else {
				kern_multiply_packed(ukr, quads, rows, b, to, ldc, m, n, accumulate);
			}
		}
	}
}

// Halves a chunk's size until there are enough chunks for several threads, but not below the least size.
static int64_t kern_smaller(int64_t size, int64_t least, int64_t all, int64_t others) {
	while (size / 2 >= least && kern_ceil_div(all, size) * others < KERN_MIN_CHUNKS_I8) {
		size /= 2;
	}
	return size;
}

KERN_OP(gemm_grad_input_i8) {
	(void)ith, (void)userdata;
	kern_ukr_i8 ukr = kern_find_i8()->ukr;
	int first = ((const struct kern_gemm_i8_params *)kern_params(dst))->first;
	int64_t k = dst->ne[0], n = dst->ne[1], matrices = dst->ne[2] * dst->ne[3], least = KERN_MR;
	for (int i = first; i + 2 < GGML_MAX_SRC && dst->src[i] != NULL; i += 3) {
		least = kern_max(least, ggml_blck_size(dst->src[i]->type));
	}
	int64_t nc = KERN_NC_I8, mc = kern_smaller(KERN_MC_I8, least, k, kern_ceil_div(n, nc) * matrices);
	nc = kern_smaller(nc / KERN_NR, 1, kern_ceil_div(n, KERN_NR), kern_ceil_div(k, mc) * matrices) * KERN_NR;
	int64_t m_chunks = kern_ceil_div(k, mc), n_chunks = kern_ceil_div(n, nc);
	for (int64_t i; (i = kern_next_chunk(dst, m_chunks * n_chunks * matrices, nth)) >= 0;) {
		struct kern_product_i8 p = {.matrix = i / n_chunks / m_chunks, .m0 = i / n_chunks % m_chunks * mc, .n0 = i % n_chunks * nc};
		p.m1 = kern_min(k, p.m0 + mc);
		p.n1 = kern_min(n, p.n0 + nc);
		bool accumulate = first > 0;
		for (int s = first; s + 2 < GGML_MAX_SRC && dst->src[s] != NULL; s += 3) {
			p.w = dst->src[s], p.x = dst->src[s + 1], p.packed = dst->src[s + 2];
			for (int64_t k0 = 0; k0 < p.w->ne[1]; k0 += KERN_KB, accumulate = true) {
				kern_multiply_block(ukr, &p, k0, kern_min(p.w->ne[1], k0 + KERN_KB), kern_matrix(dst, p.matrix), dst->ne[0], accumulate);
			}
		}
	}
}
