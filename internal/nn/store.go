package nn

import "github.com/goggml/ggml"

// A form is one in which an input is kept.
type form int

const (
	unchanged     form = iota
	compressed         // to 18 bits, see keepCompressed
	roundedToBF16      // as products round it anyway
)

// An activationStore keeps the inputs of checkpoints [m, n] until the backward pass.
type activationStore struct {
	c         *ggml.Context
	g         *ggml.Graph
	lowering  Lowering
	inputs    int64 // number of them
	residuals *ggml.Tensor
	used      int64
}

// keep keeps x in the form of the lowering.
func (s *activationStore) keep(x *ggml.Tensor) (restore func() *ggml.Tensor) {
	switch form := s.lowering.kept(); {
	case form == roundedToBF16:
		low := s.lowering.Cast(s.c, x)
		s.g.Expand(low)
		return func() *ggml.Tensor { return s.c.Cast(low, ggml.F32) }
	case form == compressed && x.Dim(0)%ggml.Q8_0.BlockSize() == 0:
		return s.keepCompressed(x)
	}
	return func() *ggml.Tensor { return x }
}

// keepCompressed keeps x in three quarters of its memory, to 18 bits of the largest
// value of a block or of 0.01: in F16, and the rounding residual in 8 bits. The scales
// are powers of two, which round nothing. They let x be as large as four million, and
// lift the residuals of small values to where the scale of a block, in F16 too, is
// exact.
func (s *activationStore) keepCompressed(x *ggml.Tensor) (restore func() *ggml.Tensor) {
	const large, small = 1 << 6, 1.0 / (1 << 12)
	c := s.c
	low := c.Cast(c.Scale(x, 1.0/large), ggml.F16)
	rounded := func() *ggml.Tensor { return c.ScaleInPlace(c.Cast(low, ggml.F32), large) }
	residual := c.Copy(c.ScaleInPlace(c.Sub(x, rounded()), 1/small), s.nextResidual(x))
	s.g.Expand(residual)
	return func() *ggml.Tensor {
		return c.AddInPlace(rounded(), c.ScaleInPlace(c.Cast(residual, ggml.F32), small))
	}
}

// nextResidual is where the rounding residual of x goes. It is one tensor for all
// inputs: tensors of that size between the others, which are larger, would leave gaps
// that nothing fits in.
func (s *activationStore) nextResidual(x *ggml.Tensor) *ggml.Tensor {
	m, n := x.Dim(0), x.Dim(1)
	if s.residuals == nil {
		s.residuals = s.c.NewTensor(ggml.Q8_0, m, n, s.inputs)
	}
	at := s.used * s.residuals.Stride(2)
	s.used++
	return s.c.View(s.residuals, []int64{m, n}, nil, at)
}
