// Package rebuild builds ops from what ggml stores of them: the name of the op, its parameters, its operands, and the
// type and layout of its result.
package rebuild

import (
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// A Node describes an op.
type Node struct {
	Op      string // as [ggml.OpCode] prints it
	Params  ggml.OpParams
	Result  ggml.Layout
	InPlace bool           // the result is a view of the first operand
	Sources []*ggml.Tensor // the operands, nil for an absent one
}

// Build builds the op by the method of ggml.Context that makes such ops, so the method's checks apply. The caller
// compares the result with the description: what no method makes becomes another op. Build returns nil if the op is
// unknown.
func Build(c *ggml.Context, d Node) *ggml.Tensor {
	build, known := builders[d.Op]
	if !known {
		return nil
	}
	n := &node{d, c}
	return build(n, n.source(0), n.source(1), n.source(2))
}

// Ops returns the names of all ops that Build knows. None has the address of a function as a parameter.
func Ops() []string { return slices.Sorted(maps.Keys(builders)) }

// Knows reports whether Build knows an op.
func Knows(op string) bool { return builders[op] != nil }

// A node decodes the parameters of its op.
type node struct {
	Node
	c *ggml.Context
}

// source returns an operand, or nil if it is absent.
func (n *node) source(i int) *ggml.Tensor {
	if i < len(n.Sources) {
		return n.Sources[i]
	}
	return nil
}

// either returns the method for an op, or the one for the op in place.
func either[F any](n *node, method, inPlace F) F {
	if n.InPlace {
		return inPlace
	}
	return method
}

func (n *node) int(word int) int     { return int(n.Params[word]) }
func (n *node) f32(word int) float32 { return n.Params.Float32(word) }

// size decodes a size_t from two words.
func (n *node) size(word int) int64 {
	return int64(uint64(uint32(n.Params[word])) | uint64(uint32(n.Params[word+1]))<<32)
}

// four decodes a number for each dimension, from every step-th word on.
func (n *node) four(word, step int) [4]int {
	return [4]int{n.int(word), n.int(word + step), n.int(word + 2*step), n.int(word + 3*step)}
}

func (n *node) shape() []int64 { return n.Result.Shape[:] }

// ne returns a size of the result.
func (n *node) ne(dim int) int { return int(n.Result.Shape[dim]) }

// like returns a tensor for an op that uses only its shape.
func (n *node) like(t ggml.Type) *ggml.Tensor { return n.c.NewTensor(t, n.shape()...) }

// strides are the parameters of ops on a part of their operand, in bytes.
func (n *node) strides() [3]int64 {
	return [3]int64{int64(n.int(0)), int64(n.int(1)), int64(n.int(2))}
}

func (n *node) rope() ggml.RoPE {
	return ggml.RoPE{
		Dims: n.int(1), Mode: ggml.RoPEMode(n.int(2)), TrainedCtx: n.int(4), FreqBase: n.f32(5), FreqScale: n.f32(6),
		ExtFactor: n.f32(7), AttnFactor: n.f32(8), BetaFast: n.f32(9), BetaSlow: n.f32(10), Sections: n.four(11, 1), Offset: n.int(15),
		Unrounded: n.int(3) != 0,
	}
}

func (n *node) attention(q, k, v tensor, o ggml.AttentionOptions) tensor {
	if seen := n.source(5); seen != nil {
		return n.c.FlashAttentionRows(q, k, v, seen, o)
	}
	return n.c.FlashAttention(q, k, v, o)
}

// planes returns the dimensions of im2col, one or two.
func (n *node) planes() []ggml.ConvDim {
	dims := n.image()
	if n.int(6) == 0 {
		return dims[:1]
	}
	return dims[:]
}

func (n *node) image() [2]ggml.ConvDim {
	return [2]ggml.ConvDim{n.conv(0, 2, 4), n.conv(1, 3, 5)}
}

func (n *node) volume() [3]ggml.ConvDim {
	return [3]ggml.ConvDim{n.conv(0, 3, 6), n.conv(1, 4, 7), n.conv(2, 5, 8)}
}

func (n *node) conv(stride, padding, dilation int) ggml.ConvDim {
	return ggml.ConvDim{Stride: n.int(stride), Padding: n.int(padding), Dilation: n.int(dilation)}
}

func (n *node) windows() [2]ggml.PoolDim {
	return [2]ggml.PoolDim{n.pool(1, 3, 5), n.pool(2, 4, 6)}
}

func (n *node) pool(size, stride, padding int) ggml.PoolDim {
	return ggml.PoolDim{Size: n.int(size), Stride: n.int(stride), Padding: n.int(padding)}
}

// withPrecision sets the precision of a product.
func (n *node) withPrecision(t *ggml.Tensor) *ggml.Tensor {
	if p := n.int(0); p != 0 {
		t.SetAccPrecision(ggml.Precision(p))
	}
	if p := n.int(3); p != 0 {
		t.SetSourcePrecision(1, ggml.Precision(p))
	}
	if n.int(1) != 0 {
		t.SetHadamard()
	}
	return t
}
