// Package model holds language models of several architectures: their hyper-parameters and weights, read from GGUF
// files and written to them, and the training graph.
//
// A [Model] is the weights. A [LossGraph] computes the loss of a [Batch], and the gradients of what is trained.
// Package infer computes the tokens that follow others.
//
// # What a token sees
//
// A row of a batch holds one sample, or several (Packed), whose positions each begin at 0 ([Batch].Starts). In a
// branched graph several answers continue one prompt, which is computed once: [Batch].Hidden is the interval of
// its sample that a token does not see, the answers between the prompt and its own. Recurrent states cannot branch
// (Architecture.CheckBranched).
//
// # Losses
//
// A [SampleLoss] is a function of the log-probabilities of samples, and gives the slope for each. The slopes of
// cross-entropy are −1, so its weights are known before the pass. For another loss, a graph without gradients first
// computes the log-probabilities; Batch.WithSlopes then sets the signed weights for the pass with gradients.
//
// # Weight cache
//
// [Copies] hold frozen weights in the compute type, and transposed, for devices that would convert them at each
// product. Adapters are folded into them; the optimiser's results are copied there at the end of its submission. A trainer
// keeps as many as each device has memory for (train.Options.WeightCopies). Copies alone change no bit; folded
// adapters round otherwise, so a resumed run keeps no more than it did.
//
// # Gradients as they come
//
// Nodes of the training graph call back when the gradients of some layers are complete (milestone.go), so that processes
// sum them while the backward pass goes on.
package model
