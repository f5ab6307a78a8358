// Vectors of WIDTH floats, for files that each kind of processor includes with its own WIDTH.
#ifndef KERN_LANES_H
#define KERN_LANES_H

#define KERN_INLINE __attribute__((always_inline)) static inline
#define KERN_UNROLLED(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)

enum { PARTS = WIDTH / 4 }; // parts of a vector, each of four floats

typedef float lanes __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef float lanes4 __attribute__((vector_size(16)));
typedef union { lanes all; lanes4 part[PARTS]; } lanes_by4;
#define LANES_AT(x) (*(lanes *)(x))

// The sum of a vector.
KERN_INLINE float kern_sum(const lanes *x) {
	lanes_by4 by4 = {*x};
	KERN_UNROLLED(p, PARTS - 1) by4.part[0] += by4.part[p + 1];
	return (by4.part[0][0] + by4.part[0][2]) + (by4.part[0][1] + by4.part[0][3]);
}

#endif
