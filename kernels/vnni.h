// Shared by the products with AVX512-VNNI: a row is multiplied by up to four columns at once, with
// the sums in registers.
#ifndef KERN_VNNI_H
#define KERN_VNNI_H

#include <immintrin.h>

#define KERN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,fma,f16c")))
#define KERN_VNNI_INLINE KERN_VNNI static inline __attribute__((always_inline))

enum { KERN_REGISTER = 64, KERN_COLUMNS = 4 };

// Multiplies any number of columns, by kern_accumulate_columns_TYPE, which is compiled for each
// number of columns.
#define KERN_VNNI_ACCUMULATE(type) \
	KERN_VNNI static void kern_accumulate_##type(float *y, int64_t ldy, int64_t k, \
			const void *row, const char *columns, size_t stride, int64_t n) { \
		for (; n >= KERN_COLUMNS; n -= KERN_COLUMNS, y += KERN_COLUMNS * ldy, columns += KERN_COLUMNS * stride) { \
			kern_accumulate_columns_##type(y, ldy, k, row, columns, stride, KERN_COLUMNS); \
		} \
		switch (n) { \
		case 3: kern_accumulate_columns_##type(y, ldy, k, row, columns, stride, 3); break; \
		case 2: kern_accumulate_columns_##type(y, ldy, k, row, columns, stride, 2); break; \
		case 1: kern_accumulate_columns_##type(y, ldy, k, row, columns, stride, 1); break; \
		} \
	}

#endif
