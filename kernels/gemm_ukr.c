#include "gemm_ukr.h"
#include "isa.h"
#include "library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

int kern_list_ukrs(struct kern_ukrs list[KERN_UKRS]) {
	int n = 0;
	if (kern_library_amx()) {
		list[n++] = (struct kern_ukrs){"AVX512-VNNI and AMX-INT8", kern_gemm_amxint8_32x12, kern_gemm_avx512vnni_i16_32x12, true, &kern_gemm_amxint8_tiles};
	}
	if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
		list[n++] = (struct kern_ukrs){"AVX512-VNNI", kern_gemm_avx512vnni_i8_32x12, kern_gemm_avx512vnni_i16_32x12, KERN_ISA_ALLOWED("AVX512_CORE_")};
	}
	if (__builtin_cpu_supports("avxvnni")) {
		list[n++] = (struct kern_ukrs){"AVX-VNNI", kern_gemm_avxvnni_i8_16x6, kern_gemm_avxvnni_i16_16x6, KERN_ISA_ALLOWED("AVX512_CORE", "AVX2_VNNI")};
	}
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		list[n++] = (struct kern_ukrs){"AVX2", NULL, kern_gemm_avx2_i16_16x6, KERN_ISA_ALLOWED("AVX512_CORE", "AVX2")};
	}
	return n;
}

#else

int kern_list_ukrs(struct kern_ukrs list[KERN_UKRS]) { return 0; }

// Without micro-kernels nothing is packed.
void kern_pack_a_i8(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {}
void kern_pack_a_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {}
void kern_pack_a_transposed_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel) {}
void kern_pack_b_i8(const float *b, int64_t ld, int64_t n, int64_t depth, bool tiles, struct kern_panel_b *panel) {}
void kern_pack_b_i16(const float *b, int64_t ld, int64_t n, int64_t depth, struct kern_panel_b *panel) {}

#endif

static struct kern_ukrs kern_chosen = {""};

static void kern_choose(void) {
	struct kern_ukrs list[KERN_UKRS];
	for (int i = kern_list_ukrs(list) - 1; i >= 0; i--) {
		if (list[i].allowed) { kern_chosen = list[i]; }
	}
}

const struct kern_ukrs *kern_find_ukrs(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_choose);
	return &kern_chosen;
}

const struct kern_panel_b *kern_arrange(const struct kern_panel_b *b, bool tiles, void *memory) {
	if (b->tiles == tiles) {
		return b;
	}
	struct kern_panel_b *to = memory;
	*to = *b;
	to->tiles = tiles;
	for (int step = 0; step < KERN_KB / KERN_STEP_I8; step++) {
		for (int j = 0; j < KERN_NR; j++) { to->q[0][kern_b_index(tiles, step, j)] = b->q[0][kern_b_index(b->tiles, step, j)]; }
	}
	return to;
}

void kern_multiply_panels(kern_ukr ukr, bool tiles, const struct kern_tile_config *config, int64_t steps,
		const uint32_t *a, const uint32_t *b, const int32_t *first, float *c, int64_t times) {
	const int64_t most = KERN_KB / KERN_STEP_I16;
	struct kern_panel_a *rows = aligned_alloc(64, kern_panel_a_bytes(most));
	struct kern_panel_b *columns = aligned_alloc(64, kern_panel_b_bytes(most));
	memset(columns, 0, kern_panel_b_bytes(most));
	_Alignas(64) char memory[KERN_PANEL_I8];
	for (int i = 0; i < KERN_MR; i++) { rows->scale[i] = 1; }
	for (int j = 0; j < KERN_NR; j++) { columns->scale[j] = 1; }
	memcpy(columns->first, first, sizeof columns->first);
	memcpy(rows->q, a, steps * sizeof *rows->q);
	memcpy(columns->q, b, steps * sizeof *columns->q);
	const struct kern_panel_b *arranged = kern_arrange(columns, tiles, memory);
	struct kern_tiles before = kern_tiles_configure(config);
	for (; times > 0; times--) { ukr(steps, rows, arranged, c, KERN_MR, false); }
	kern_tiles_restore(&before);
	free(rows);
	free(columns);
}
