package nn

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml"
)

// OptionalOps are ops of ggml that not every device has. Each takes the place of several that every
// device has.
type OptionalOps uint

// The optional ops. OutProd is one with a transposed second operand: devices that take it have it from a
// GEMM library, and others by a loop that their own products outrun.
const (
	SiluBack OptionalOps = 1 << iota
	RMSNormBack
	SoftMaxBack
	RoPEBack
	OutProd
	endOfOptional

	NoOptionalOps  OptionalOps = 0
	AllOptionalOps             = endOfOptional - 1
)

// Has reports whether all of the others are among the ops.
func (o OptionalOps) Has(others OptionalOps) bool { return o&others == others }

// String lists the ops as ggml names them, "none" without any.
func (o OptionalOps) String() string {
	var list []string
	for _, t := range optionalTrials {
		if o.Has(t.op) {
			list = append(list, t.name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// trialOperands are the operands of a trial: random numbers [trialSize, 8, trialTokens], and
// positions [trialTokens].
type trialOperands struct{ x, y, dy, positions, negated *ggml.Tensor }

const trialSize, trialTokens = 64, 4

// tape builds with the ops.
func (s stock) tape(c *ggml.Context) *Tape { return &Tape{C: c, Lowering: stockWith(s.has)} }

// optionalTrials build what has an optional op in it, or in its place those that every device has.
var optionalTrials = []struct {
	op    OptionalOps
	name  string
	build func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor
}{
	{SiluBack, "silu_back", func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor {
		return GLU.Build(s.tape(c), GLUOperands{ggml.SwiGLU, o.x, o.y}).Grad(o.dy).Gate
	}},
	{RMSNormBack, "rms_norm_back", func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor {
		return Normalization.Build(s.tape(c), NormOperands{o.x, Norm{Eps: 1e-5}}).Grad(o.dy)
	}},
	{SoftMaxBack, "soft_max_back", func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor {
		return SoftMaxGrad.Build(s.tape(c), SoftMaxOperands{o.dy, c.SoftMax(o.x), 0.5})
	}},
	{RoPEBack, "rope_back", func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor {
		r := ggml.RoPE{Dims: trialSize, Mode: ggml.RoPENeoX, FreqBase: 10000, FreqScale: 1, AttnFactor: 1}
		return RoPE.Build(s.tape(c), RoPEOperands{o.x, Rotation{RoPE: r, Positions: o.positions, Negated: o.negated}}).Grad(o.dy)
	}},
	{OutProd, "out_prod", func(c *ggml.Context, s stock, o trialOperands) *ggml.Tensor {
		t := s.tape(c)
		return c.Concat(OuterProducts.Build(t, PairOperands{o.x, o.y}), MulTransposed.Build(t, PairOperands{o.x, transposed(c, o.y)}), 1)
	}},
}

// FindOptionalOps asks a device which of the ops it has, and tries whether they compute what those in
// their place do, in memory of the type.
func FindOptionalOps(memory *ggml.BufferType, supports func(*ggml.Tensor) bool, compute func(*ggml.Graph) error) (OptionalOps, error) {
	found := NoOptionalOps
	if supportsAnything(supports) {
		return found, nil
	}
	for _, t := range optionalTrials {
		ok, err := tryOp(memory, supports, compute, func(c *ggml.Context, o trialOperands) (by, instead *ggml.Tensor) {
			return t.build(c, stock{t.op}, o), t.build(c, stock{}, o)
		})
		if err != nil {
			return 0, err
		}
		if ok {
			found |= t.op
		}
	}
	return found, nil
}

// tryOp reports whether a device has all ops of what is built, and computes the same by both.
func tryOp(memory *ggml.BufferType, supports func(*ggml.Tensor) bool, compute func(*ggml.Graph) error,
	build func(c *ggml.Context, o trialOperands) (by, instead *ggml.Tensor)) (bool, error) {
	c := ggml.NewContext()
	defer c.Close()
	matrices := func() *ggml.Tensor { return c.NewTensor(ggml.F32, trialSize, 8, trialTokens) }
	o := trialOperands{matrices(), matrices(), matrices(), c.NewTensor(ggml.I32, trialTokens), c.NewTensor(ggml.I32, trialTokens)}
	by, instead := build(c, o)
	g := c.NewGraph(by.SetOutput(), instead.SetOutput())
	if err := c.Err(); err != nil {
		return false, err
	}
	for node := range g.Nodes() {
		if !supports(node) {
			return false, nil
		}
	}
	buffers, err := c.Allocate(memory) // nothing shares memory, so that what is not computed is 0
	if err != nil {
		return false, err
	}
	defer buffers.Close()
	if err := errors.Join(buffers.Clear(0), o.write(), compute(g)); err != nil {
		return false, err
	}
	got, err := ggml.Read[float32](by)
	if err != nil {
		return false, err
	}
	want, err := ggml.Read[float32](instead)
	return err == nil && alike(got, want), err
}

// write gives the operands their values.
func (o trialOperands) write() error {
	rng := rand.New(rand.NewPCG(1, 2))
	var err error
	for _, x := range []*ggml.Tensor{o.x, o.y, o.dy} {
		values := make([]float32, x.NumElements())
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		err = errors.Join(err, ggml.Write(x, values))
	}
	positions, negated := make([]int32, trialTokens), make([]int32, trialTokens)
	for i := range positions {
		positions[i], negated[i] = int32(11*i), int32(-11*i)
	}
	return errors.Join(err, ggml.Write(o.positions, positions), ggml.Write(o.negated, negated))
}

// alike reports whether two results differ by no more than the roundings of products in 16 bits: their
// mean squared error is below 1e-5 of the mean square. What is no number is like nothing.
func alike(got, want []float32) bool {
	var faults, squares float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		faults += d * d
		squares += float64(w) * float64(w)
	}
	return faults <= 1e-5*squares
}

// supportsAnything reports whether a device says so of a function of this process, which none has: what it
// says means nothing then.
func supportsAnything(supports func(*ggml.Tensor) bool) bool {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1)
	return supports(c.Custom(ggml.CustomOptions{Func: func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return nil }, Type: ggml.F32, Shape: []int64{1}}, x))
}
