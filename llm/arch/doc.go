// Package arch holds the architectures of language models as data.
//
// A [Config] is the hyper-parameters, which go from and to GGUF keys through one table in
// keys.go. [Resolve] makes an [Architecture] of it, by the row of its kind, which stands in the file of a family: layers,
// each of which is residuals around parts, [Attention] or [FeedForward]. Parts declare the
// weights that they use, and running them once without memory lists these, with what LoRA can
// adapt and the names that transformers has.
//
// Everything here is a value that does not change, and safe for concurrent use. The [Builder]
// makes graphs of an architecture for the packages of this module.
package arch
