// Micro-kernels of the GEMM in integers, for each instruction set and type. Files are named as in BLIS: the
// instructions, the type, and the rows and columns that stay in registers.
#ifndef KERN_GEMM_UKR_H
#define KERN_GEMM_UKR_H

#include "amx.h"
#include "pack_int.h"

// Adds the product of two packed blocks of a number of steps, a multiple of 4, to C [KERN_MR, KERN_NR], or stores it there. Tiles
// read whole groups of steps; B is zero behind the last step.
#define KERN_UKR_PARAMS int64_t steps, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate
typedef void (*kern_ukr)(KERN_UKR_PARAMS);

void kern_gemm_amxint8_32x12(KERN_UKR_PARAMS); // needs kern_gemm_amxint8_tiles
extern const struct kern_tile_config kern_gemm_amxint8_tiles;
void kern_gemm_avx512vnni_i8_32x12(KERN_UKR_PARAMS);
void kern_gemm_avx512vnni_i16_32x12(KERN_UKR_PARAMS);
void kern_gemm_avxvnni_i8_16x6(KERN_UKR_PARAMS);
void kern_gemm_avxvnni_i16_16x6(KERN_UKR_PARAMS);
void kern_gemm_avx2_i16_16x6(KERN_UKR_PARAMS);

// Micro-kernels with the name of their instructions.
struct kern_ukrs {
	const char *name;
	kern_ukr i8, i16; // i8 is NULL if it is not much faster: AVX2's vpmaddubsw saturates
	bool allowed; // by ONEDNN_MAX_CPU_ISA
	const struct kern_tile_config *tiles; // of i8; NULL if it has none
};

// Lists the micro-kernels that the processor has, the fastest first, and returns their number.
enum { KERN_UKRS = 4 };
int kern_list_ukrs(struct kern_ukrs list[KERN_UKRS]);
// Returns the fastest that are allowed; the name is "" if there are none.
const struct kern_ukrs *kern_find_ukrs(void);

// Returns a panel of 8 bits with or without tiles: itself, or a copy in memory of KERN_PANEL_I8 bytes, if a device with other
// instructions has packed it.
enum { KERN_PANEL_I8 = sizeof(struct kern_panel_b) + KERN_KB / KERN_STEP_I8 * KERN_NR * sizeof(uint32_t) };
const struct kern_panel_b *kern_arrange(const struct kern_panel_b *b, bool tiles, void *memory);

// For tests: multiplies A [steps, KERN_MR] and B [steps, KERN_NR] with scales of 1 a number of times, by a micro-kernel with or
// without tiles, which may need a configuration.
void kern_multiply_panels(kern_ukr ukr, bool tiles, const struct kern_tile_config *config, int64_t steps,
	const uint32_t *a, const uint32_t *b, const int32_t *first, float *c, int64_t times);
// kern_gemm_amxint8_32x12 with emulated tiles; NULL on processors of another kind than x86-64.
extern const kern_ukr kern_gemm_emulated;

#endif
