// Package infer computes which tokens follow others, by prefill and decode over a KV cache, and
// embeddings of texts; with LoRA adapters.
//
// A [Session] has the memory for one [Sequence] or several. Each goes on by itself, with
// [Sequence.Decode] or from a beginning that is known ([Sequence.Prefill]), or with others by
// [Session.Step]. [Session.Embed] makes vectors of texts. On the CPU sessions use GEMV, repacked
// matrices and fused adapters; on other devices the ops that each has.
package infer
