// Package model holds language models of several architectures: their hyper-parameters, vocabulary and weights, read from
// GGUF files and written to them; it is not for computing with them, which packages lossgraph and infer do.
package model
