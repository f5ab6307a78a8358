// Package stockmodel is the training graph of a llama-family model, written with ggml's built-in ops and its
// backward pass: an independent check of llm/model's graph, and its baseline in benchmarks.
package stockmodel

import (
	"context"
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// A Graph computes the loss of one sequence and the gradients of adapters. It is used by one goroutine.
type Graph struct {
	*ggml.Graph
	Loss *ggml.Tensor // mean cross-entropy

	m                         *model.Model
	adapters                  model.Adapters
	c                         *ggml.Context
	n                         int64
	tokens, positions, labels *ggml.Tensor
}

// New builds the graph for sequences of n tokens, with the first LoRA pair of each tensor. The matrices of the
// pairs become parameters.
func New(m *model.Model, adapters model.Adapters, n int) (*Graph, error) {
	c := ggml.NewContext()
	s := &Graph{m: m, adapters: adapters, c: c, n: int64(n)}
	s.tokens = c.NewTensor(ggml.I32, s.n).SetInput()
	s.positions = c.NewTensor(ggml.I32, s.n).SetInput()
	s.labels = c.NewTensor(ggml.F32, int64(m.Config().Vocab), s.n).SetInput()
	params := s.params()
	for _, p := range params {
		p.SetParam()
	}
	s.Loss = c.CrossEntropyLoss(s.logits(), s.labels).SetLoss()
	s.Graph = c.NewTrainingGraph(s.Loss)
	err := s.Backward()
	for _, p := range params {
		if err != nil {
			break
		}
		grad, ok := s.Grad(p)
		if !ok {
			err = fmt.Errorf("%v has no gradient", p)
			break
		}
		s.Expand(grad.SetOutput())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// Close frees the graph. It never fails.
func (s *Graph) Close() error { return s.c.Close() }

func (s *Graph) params() []*ggml.Tensor {
	var list []*ggml.Tensor
	for _, t := range s.m.Architecture().Weights() {
		if d, ok := s.loraPair(t.Name); ok {
			list = append(list, d.A, d.B)
		}
	}
	return list
}

func (s *Graph) loraPair(name string) (model.LoRAPair, bool) {
	if list := s.adapters[name]; len(list) > 0 {
		return list[0], true
	}
	return model.LoRAPair{}, false
}

// Compute computes loss and gradients; the engine has allocated the graph.
func (s *Graph) Compute(ctx context.Context, e *device.Engine, tokens, targets []int32) error {
	positions := make([]int32, s.n)
	oneHot := make([]float32, s.labels.NumElements())
	for i, target := range targets {
		positions[i] = int32(i)
		oneHot[i*s.m.Config().Vocab+int(target)] = 1
	}
	if err := ggml.Write(s.tokens, tokens); err != nil {
		return err
	}
	if err := ggml.Write(s.positions, positions); err != nil {
		return err
	}
	if err := ggml.Write(s.labels, oneHot); err != nil {
		return err
	}
	if err := s.Reset(); err != nil {
		return err
	}
	return e.Compute(ctx, s.Graph)
}

func (s *Graph) logits() *ggml.Tensor {
	c, embd := s.c, "token_embd.weight"
	x := c.GetRows(s.m.Weight(embd), s.tokens)
	if d, ok := s.loraPair(embd); ok {
		x = c.Add(x, c.Scale(c.MulMat(d.B, c.GetRows(d.A, s.tokens)), d.Scale))
	}
	for layer := range s.m.Config().Layers {
		x = s.block(x, fmt.Sprintf("blk.%d.", layer))
	}
	x = s.norm("output_norm.weight", x)
	if s.m.Config().Tied {
		return c.MulMat(s.m.Weight(embd), x)
	}
	return s.linear("output.weight", x)
}

func (s *Graph) linear(name string, x *ggml.Tensor) *ggml.Tensor {
	c := s.c
	y := c.MulMat(s.m.Weight(name), x)
	if d, ok := s.loraPair(name); ok {
		y = c.Add(y, c.Scale(c.MulMat(d.B, c.MulMat(d.A, x)), d.Scale))
	}
	return y
}

func (s *Graph) norm(name string, x *ggml.Tensor) *ggml.Tensor {
	return s.c.Mul(s.c.RMSNorm(x, s.m.Config().RMSEps), s.m.Weight(name))
}

func (s *Graph) block(x *ggml.Tensor, prefix string) *ggml.Tensor {
	c, m := s.c, s.m
	name := func(part string) string { return prefix + part + ".weight" }
	size, heads, kv := int64(m.Config().HeadSize), int64(m.Config().Heads), int64(m.Config().KVHeads)

	in := s.norm(name("attn_norm"), x)
	rope := func(y *ggml.Tensor, heads int64) *ggml.Tensor {
		y = c.RoPE(c.Reshape(y, size, heads, s.n), s.positions, nil, m.Config().RoPE)
		return c.Permute(y, [4]int{0, 2, 1, 3}) // [size, n, heads]
	}
	q, k := rope(s.linear(name("attn_q"), in), heads), rope(s.linear(name("attn_k"), in), kv)
	v := c.Reshape(s.linear(name("attn_v"), in), size, kv, s.n)
	v = c.Cont(c.Permute(v, [4]int{1, 2, 0, 3})) // [n, size, kv heads]
	later := c.Tri(c.Fill(c.NewTensor(ggml.F32, s.n, s.n), float32(math.Inf(-1))), ggml.Upper)
	scores := c.SoftMaxExt(c.MulMat(k, q), ggml.SoftMaxOptions{Mask: later, Scale: float32(1 / math.Sqrt(float64(size)))})
	out := c.MulMat(v, scores) // [size, n, heads]
	out = c.Cont(c.Permute(out, [4]int{0, 2, 1, 3}), size*heads, s.n)
	x = c.Add(x, s.linear(name("attn_output"), out))

	in = s.norm(name("ffn_norm"), x)
	act := c.Mul(c.Silu(s.linear(name("ffn_gate"), in)), s.linear(name("ffn_up"), in))
	return c.Add(x, s.linear(name("ffn_down"), act))
}
