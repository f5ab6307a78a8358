// Package nn holds the layers of which language models are made, each with its
// gradient, and the [Lowering] that decides by which ops a device computes them.
//
// A [Tape] builds a graph forwards and remembers for each step how its gradient
// flows back. Package [github.com/goggml/ggml/llm/arch] makes models of these layers.
package nn
