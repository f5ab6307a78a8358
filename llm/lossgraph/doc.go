// Package lossgraph computes the losses of a batch of samples and the gradients of what is trained; it is not for taking
// steps with them, which package train does.
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
// cross-entropy are −1, so its weights are known before the pass. For another loss, Options.Slopes is called between
// the forward and the backward pass, and its slopes multiply the gradients of the tokens. Where slopes depend on further
// batches, or the head is trained, a graph without gradients first computes the log-probabilities; Batch.WithSlopes then
// sets the signed weights for the pass with gradients.
//
// # Gradients as they come
//
// Nodes of the training graph call back when the gradients of some layers are complete ([Hook]), so that processes
// sum them while the backward pass goes on.
package lossgraph
