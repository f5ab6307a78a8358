// Package nn holds the layers of language models, each with its
// gradient, the ops that devices compute differently, and the [Lowering], the table of a device's kernels.
//
// A [Tape] builds a graph forwards and records the vector-Jacobian product of each step; gradients
// hang on the tensors that are trained. Package [github.com/goggml/ggml/llm/arch] makes models of
// these layers.
//
// # Ops and tables
//
// An [Op], such as [Attention] or [Linear], is a value. Its plain form is made of built-in ops that every ggml
// device has, with the gradient. A [Row] of a table replaces it by a kernel, for the operands that the kernel
// takes. A kernel keeps what it computed for its gradient, and asks the tape for the inputs that it needs.
// stock is the plain forms, and dequantises a matrix by looking up all of its rows. cpu has rows for package
// kernels. Another table is one of them With rows of its own: a new kernel is a row, a new op a file.
// A recurrence has one op for whole sequences, and one without gradients for their next tokens (Next, Stepped).
// Sessions attend by flash attention, or by matrix products if the device lacks it for their heads. They add
// a row of [Linear] to the table of the CPU, for what it prepared of their weights and adapters.
//
// Products use the lowering of their matrix, experts the one of their matrices, the rest of a layer the
// one of its output matrix, and a step of the optimiser the one of the parameter.
//
// # Optional ops
//
// [OptionalOps] are built-in ops that some devices lack; each is rows that replace several others. An engine asks
// each device for them before training, and tries both forms on random numbers: an op is used if it
// computes the same. RPC devices say yes to everything, so they are not believed. The log at level debug
// has the result. OUT_PROD with a transposed operand tells devices that have it from a GEMM library.
// Not used, with the reason:
//
//   - GET_ROWS_BACK: goes through all tokens for each row of a table, and CUDA takes 65,535 rows;
//   - REPEAT_BACK: each of its threads sums a whole column;
//   - CROSS_ENTROPY_LOSS: gives one loss for all tokens;
//   - FLASH_ATTN_EXT in training: the backward pass needs the attention weights anyway. It would save
//     16 of 56 bytes that attention moves for each score, but rounds keys and values to 16 bits, and
//     devices differ in the head sizes that they take.
//
// # Attention
//
// The first visible key of each query, max(start of its sample, position − window + 1), serves
// sliding windows and packed samples alike. Bidirectional attention adds the last visible key, branched
// samples an interval of hidden keys, both in the stock form alone.
//
// The stock form computes blocks of queries, so that the memory of scores grows with the length of rows
// alone, and skips keys that no query of a block sees. The size of a block balances masked scores with
// the time that starting ops takes. If visibility depends on the distance alone, all blocks of all layers
// view one mask.
//
// # Experts
//
// The router ([Router]) computes in F32. Its choice, I32 [used, n], is a saved tensor (Tape.Saved) where a layer is
// recomputed, so that the backward pass uses the same experts; gradients flow through the routing weights.
// Tape.LinearID multiplies each column by the matrices [n_in, n_out, experts] that it chose: stock by
// MUL_MAT_ID, the CPU by a grouped GEMM over columns sorted by expert, and in decoding by GEMV of the chosen
// experts alone. By stock ops the gradient of the matrices is a batched product over all tokens, with zeros
// for tokens that did not choose the expert. Layers with experts are not cut into chunks of tokens: each
// chunk would dequantise the experts again.
//
// # Noise
//
// LoRA dropout and NEFTune are inputs of training graphs, not ops. A counter-based generator draws them from
// seed, step and the row's id in the step, so a row draws the same on every device, in every batch and
// process, in recomputation and after a resume. A mask is a row of a pool that is drawn again for each step,
// and each token picks one for each matrix: masks of their own would be larger than all activations.
//
// # Weight cache
//
// [Copies] are copies of frozen weights for tables that would convert these at each product
// ([FrozenCopies]): in the compute type, and transposed. The tape requests them as graphs are built, so that
// only what is multiplied is copied. With adapters folded in, as [W|B] and [Wᵀ|Aᵀ], one product computes
// both, over a depth that is longer by the rank.
package nn
