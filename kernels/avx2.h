// What the files with AVX2 code share.
#ifndef KERN_AVX2_H
#define KERN_AVX2_H

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_AVX2 __attribute__((target("avx2,fma")))
#define KERN_F16C __attribute__((target("avx2,fma,f16c")))
#define KERN_F16C_INLINE KERN_F16C static inline __attribute__((always_inline))
#define KERN_INLINE KERN_AVX2 static inline __attribute__((always_inline))

KERN_INLINE float kern_sum_lanes(__m256 x) {
	__m128 v = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	v = _mm_add_ps(v, _mm_movehl_ps(v, v));
	return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}

KERN_INLINE float kern_max_lanes(__m256 x) {
	__m128 v = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	v = _mm_max_ps(v, _mm_movehl_ps(v, v));
	return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}

#endif

#endif
