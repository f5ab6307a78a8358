// Package arch holds the architectures of language models as data: a table of
// specs over one transformer block. A spec is a row of the table in spec.go; the
// hyper-parameters go from and to GGUF keys through one table in keys.go. The block
// declares the weights that it uses, and [Config.Weights] lists them by running it
// once without memory.
package arch
