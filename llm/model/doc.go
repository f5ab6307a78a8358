// Package model holds transformer language models of the llama family: their
// hyper-parameters and weights, read from GGUF files, and the graph that
// computes them, for training and for generation.
//
// A [Model] is the weights. A [Pass] builds the forward graph of a batch, and,
// in training, its gradients. A [Session] generates with a KV cache.
package model
