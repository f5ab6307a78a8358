package nn

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// An OptionalOp is an op of ggml that not every device has, with the table rows that use it. It replaces several ops
// that every device has.
type OptionalOp struct {
	name string
	rows []Row
	try  func(t *Tape, o trialOperands) *ggml.Tensor // builds a graph that the rows change
}

// OptionalOps is a list of optional ops.
type OptionalOps []*OptionalOp

// AllOptionalOps lists the ops to try on a device. The last, OUT_PROD with a transposed second operand, is fast only on
// devices that compute it by a GEMM library; other devices refuse the transposed operand, and their loop is slower than
// their products. With it no operand is transposed, so low-rank operands stay in F32: BF16 would not make a transposition cheaper.
var AllOptionalOps = OptionalOps{
	{"silu_back", []Row{GLU.When(
		func(_ *Tape, o GLUOperands) bool { return o.Act == ggml.SwiGLU },
		func(t *Tape, o GLUOperands) Result[GLUGrads] { return gluBy(t, o, t.C.SiluBack) },
	)}, func(t *Tape, o trialOperands) *ggml.Tensor {
		return GLU.Build(t, GLUOperands{ggml.SwiGLU, o.x, o.y}).Grad(o.dy).Gate
	}},
	{"rms_norm_back", []Row{Normalization.By(func(t *Tape, n NormOperands) Result[*ggml.Tensor] {
		return normBy(t, n, func(dy, x *ggml.Tensor) *ggml.Tensor { return t.C.RMSNormBack(contiguous(t.C, dy), x, n.Eps) })
	})}, func(t *Tape, o trialOperands) *ggml.Tensor {
		return Normalization.Build(t, NormOperands{o.x, Norm{Eps: 1e-5}}).Grad(o.dy)
	}},
	{"soft_max_back", []Row{SoftMaxGrad.By(func(t *Tape, o SoftMaxOperands) *ggml.Tensor {
		return t.C.SoftMaxBack(o.Dp, o.Weights, o.Scale)
	})}, func(t *Tape, o trialOperands) *ggml.Tensor {
		return SoftMaxGrad.Build(t, SoftMaxOperands{o.dy, t.C.SoftMax(o.x), 0.5})
	}},
	{"rope_back", []Row{RoPE.By(ropeBack)}, func(t *Tape, o trialOperands) *ggml.Tensor {
		r := ggml.RoPE{Dims: trialSize, Mode: ggml.RoPENeoX, FreqBase: 10000, FreqScale: 1, AttnFactor: 1}
		positions := func(negated bool) *ggml.Tensor {
			if negated {
				return o.negated
			}
			return o.positions
		}
		return RoPE.Build(t, RoPEOperands{o.x, Rotation{RoPE: r, Positions: positions}}).Grad(o.dy)
	}},
	{"out_prod", []Row{
		OuterProducts.When(areF32, func(t *Tape, p PairOperands) *ggml.Tensor { return t.C.OutProd(p.X, p.Y) }),
		MulTransposed.When(areF32, func(t *Tape, p PairOperands) *ggml.Tensor { return t.C.OutProd(p.X, t.C.Transpose(p.Y)) }),
		CastLowRank.By(func(_ *Tape, x *Value) *ggml.Tensor { return x.T }),
	}, func(t *Tape, o trialOperands) *ggml.Tensor {
		p := PairOperands{o.x, transposed(t.C, o.y)}
		return t.C.Concat(OuterProducts.Build(t, PairOperands{o.x, o.y}), MulTransposed.Build(t, p), 1)
	}},
}

// And returns the ops that both lists have.
func (o OptionalOps) And(others OptionalOps) OptionalOps {
	return slices.DeleteFunc(slices.Clone(o), func(op *OptionalOp) bool { return !slices.Contains(others, op) })
}

func (o OptionalOps) rows() []Row {
	var rows []Row
	for _, op := range o {
		rows = append(rows, op.rows...)
	}
	return rows
}

// String lists the ops by their names in ggml; "none" for an empty list.
func (o OptionalOps) String() string {
	var list []string
	for _, op := range o {
		list = append(list, op.name)
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// trialOperands are the operands of a trial: random x, y and dy [trialSize, 8, trialTokens], and
// positions [trialTokens] with their negatives.
type trialOperands struct{ x, y, dy, positions, negated *ggml.Tensor }

const trialSize, trialTokens = 64, 4

// FindOptionalOps returns the optional ops that a device supports and computes correctly: it compares each with the
// ops that it replaces, in memory of the given type.
func FindOptionalOps(memory *ggml.BufferType, supports func(*ggml.Tensor) bool, compute func(*ggml.Graph) error) (OptionalOps, error) {
	if supportsAnything(supports) {
		return nil, nil
	}
	var found OptionalOps
	for _, op := range AllOptionalOps {
		ok, err := op.works(memory, supports, compute)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, op)
		}
	}
	return found, nil
}

// works reports whether a device supports the ops of both graphs, with the rows and without, and both results agree.
func (op *OptionalOp) works(memory *ggml.BufferType, supports func(*ggml.Tensor) bool, compute func(*ggml.Graph) error) (bool, error) {
	c := ggml.NewContext()
	defer c.Close()
	matrices := func() *ggml.Tensor { return c.NewTensor(ggml.F32, trialSize, 8, trialTokens) }
	o := trialOperands{matrices(), matrices(), matrices(), c.NewTensor(ggml.I32, trialTokens), c.NewTensor(ggml.I32, trialTokens)}
	plain := &Tape{C: c, Lowering: Stock()}
	by, instead := op.try(plain.By(plain.Lowering.With(op.rows...)), o), op.try(plain, o)
	g := c.NewGraph(by.SetOutput(), instead.SetOutput())
	if err := c.Err(); err != nil {
		return false, err
	}
	for node := range g.Nodes() {
		if !supports(node) {
			return false, nil
		}
	}
	buffers, err := c.Allocate(memory) // no tensors share memory: the result of an op that does nothing stays 0
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

// write fills the operands.
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

// alike reports whether two results differ by no more than products in 16 bits round: the mean squared
// error is at most 1e-5 of the mean square. NaN is unlike everything.
func alike(got, want []float32) bool {
	var faults, squares float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		faults += d * d
		squares += float64(w) * float64(w)
	}
	return faults <= 1e-5*squares
}

// supportsAnything reports whether a device claims to support a Go function of this process. No device can run one, so
// such a device's claims mean nothing.
func supportsAnything(supports func(*ggml.Tensor) bool) bool {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1)
	return supports(c.Custom(ggml.CustomOptions{Func: func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return nil }, Type: ggml.F32, Shape: []int64{1}}, x))
}
