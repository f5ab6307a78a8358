#include "gemm.h"
#include "f16.h"
#include "library.h"
#include "scratch.h"

// Columns of X are scaled, because F16 has a smaller range than F32. Few products are summed in F16
// before the sum continues in F32. Values too large for F16 are multiplied in F32.
void kern_accumulate_f16(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct kern_accumulator *acc,
		bool grad_input, const struct kern_chunk *chunk, bool accumulate) {
	int64_t depth = grad_input ? w->ne[1] : w->ne[0], m = chunk->m1 - chunk->m0, n = chunk->n1 - chunk->n0, ld;
	const int64_t ldx = KERN_KC_F16 + KERN_LD_PADDING / sizeof(uint16_t);
	uint16_t *columns = kern_scratch(KERN_SCRATCH_COLUMNS, n * ldx * sizeof *columns);
	uint16_t *product = kern_scratch(KERN_SCRATCH_PRODUCT, m * n * sizeof *product);
	float *inv_scale = kern_scratch(KERN_SCRATCH_SCALES, n * sizeof *inv_scale);
	const float *from = (const float *)kern_matrix(x, chunk->matrix) + chunk->n0 * x->ne[0];
	for (int64_t k0 = 0; k0 < depth; k0 += KERN_KC_F16, from += KERN_KC_F16) {
		int64_t k1 = kern_min(depth, k0 + KERN_KC_F16);
		const void *tile = kern_chunk_tile(w, chunk, GGML_TYPE_F16, grad_input, k0, k1, &ld);
		struct kern_gemm g = {.trans_a = !grad_input, .m = m, .n = n, .k = k1 - k0, .lda = ld, .ldb = ldx, .ldc = m};
		kern_scale_to_f16(from, x->ne[0], columns, ldx, inv_scale, g.k, n);
		kern_library_gemm_f16(&g, tile, columns, product);
		g.accumulate = accumulate || k0 > 0;
		int64_t done = kern_unscale_f16(product, inv_scale, acc->c, acc->ldc, m, n, g.accumulate);
		if (done < n) {
			tile = kern_chunk_tile(w, chunk, GGML_TYPE_F32, grad_input, k0, k1, &ld);
			g.n = n - done, g.lda = ld, g.ldb = x->ne[0], g.ldc = acc->ldc;
			kern_library_gemm(&g, tile, from + done * x->ne[0], acc->c + done * acc->ldc);
		}
	}
}
