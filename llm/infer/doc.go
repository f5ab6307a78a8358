// Package infer computes which tokens follow others: prefill and decode over a KV cache,
// with LoRA adapters.
//
// A [Session] continues one sequence, a [Batch] several at once. On the CPU both use
// GEMV, repacked matrices and fused adapters; on other devices what package nn lowers
// products to.
package infer
