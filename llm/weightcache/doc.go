// Package weightcache keeps low-precision copies of frozen weights on devices that would convert the weights for each
// GEMM; it is not for the matrices of sessions, which package model repacks.
//
// A [Cache] holds weights in the compute type, also transposed. Adapters are fused into the copies; the optimiser's
// submission ends by copying the new adapter weights there. A trainer keeps as many copies as each device has memory
// for (train.Options.WeightCopies). Copies alone change no bit; fused adapters round differently, so a resumed run
// keeps no more copies than it did before.
package weightcache
