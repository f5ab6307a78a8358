// Package model holds transformer language models of several architectures: their
// hyper-parameters and weights, read from GGUF files and written to them, and the graph
// of training.
//
// A [Model] is the weights. A [LossGraph] computes the loss of a [Batch], and the
// gradients of what is trained. Package infer computes the tokens that follow others.
package model
