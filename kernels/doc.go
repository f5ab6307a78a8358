// Package kernels has CPU ops in C that ggml lacks or is slow at: blocked GEMM that dequantises the weights
// as it goes, and its gradients ([GEMM], [GEMMGradInput], [AccumulateGradWeight]), GEMV with software
// prefetch ([GEMV]), products of experts ([GroupedGEMM], [GroupedGEMV]), low-rank updates ([AddLoRA],
// [GEMMLoRA]), causal attention ([CausalAttention]), the gated delta rule ([GatedDeltaRule]), short convolutions
// ([ShortConvolution]), norms ([WeightedRMSNorm], [AddRMSNorm], [LayerNorm]), gates ([GateGELU]), the
// cross-entropy ([SoftmaxCrossEntropy]) and the divergence from a teacher ([SoftmaxDivergence]), each with its
// gradient, the scan of Mamba-2 for sessions ([SelectiveScan]), and a step of the optimiser ([AdamWStep], with
// [SumSquares] and [GateStep]).
//
// They are built in a [ggml.Context] by its hook [ggml.Context.BuildOp], like the ops of package ggml: a bad
// operand becomes the context's error, and [ggml.Tensor.Op], profiles and summaries show their names. Only
// CPU backends compute them; a [ggml.Scheduler] puts them there.
//
// # When they are faster
//
// ggml multiplies a quantised matrix by quantising the other operand to 8 bits. That is fast for
// few columns; for many, as in training and prefill, a GEMM library on dequantised tiles is several
// times as fast, and rounds less. ggml has no fast gradients of quantised products at all. In
// decoding, GEMV computes like ggml and prefetches the weights.
//
// # Exactness
//
// Products are exact to F32, with three exceptions: operands that the caller casts to BF16, sums
// that the caller allows in F16, and operands rounded as in [ggml.Context.MulMat]: X in [GEMV], and
// the factors of a [LoRAPair] with HType. Results are equal to the bit for any number of threads:
// chunks of work depend only on the shapes.
//
// # The GEMM library
//
// oneDNN, OpenBLAS, BLIS, oneMKL or Accelerate is loaded at run time, once; see [GEMMLibrary].
// Without one, GEMM, the gradients and causal attention are composed of ggml's own ops.
//
// # Memory
//
// Each computing thread keeps scratch memory, up to some megabytes, which [ggml.MemoryReport]
// counts.
package kernels
