package kernels

// #include "short_conv.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

// ShortConv holds the operands of [ShortConvolution].
type ShortConv struct {
	X         *ggml.Tensor // [m, n, rows], F32; the channels of a token are contiguous
	Kernel    *ggml.Tensor // [taps, m], F32 and contiguous; the last tap multiplies the token itself
	Before    *ggml.Tensor // [m, b, rows], F32, tokens before the first of each row; the channels of a token are contiguous; nil: none
	Bias      *ggml.Tensor // [m], F32 and contiguous; nil: none
	Positions *ggml.Tensor // I32 [n, rows], contiguous: tokens of its sample before each token; nil: all of its row
	Step      int          // distance of the taps in tokens
	SiLU      bool         // the result is y · σ(y) of the sum y
}

// operands are those that there are, after the given ones, and the parameters that say so.
func (s ShortConv) operands(first ...*ggml.Tensor) (operands, C.struct_kern_short_conv_params) {
	all := operands(first)
	all.add(s.X, s.Kernel)
	p := C.struct_kern_short_conv_params{step: C.int32_t(s.Step)}
	p.before, p.bias, p.positions = all.addOptional(s.Before), all.addOptional(s.Bias), all.addOptional(s.Positions)
	if s.SiLU {
		p.silu = 1
	}
	return all, p
}

var (
	shortConvolution = &ggml.NativeOp{
		Name: "short_convolution", Func: unsafe.Pointer(C.kern_op_short_convolution),
		FLOPs: func(result shape, operands []shape) float64 { return 2 * elements(result) * float64(operands[1][0]) },
	}
	shortConvolutionGrad = &ggml.NativeOp{
		Name: "short_convolution_grad", Func: unsafe.Pointer(C.kern_op_short_convolution_grad),
		FLOPs: func(result shape, operands []shape) float64 { return 4 * elements(result) * float64(operands[2][0]) },
	}
)

// ShortConvolution returns y [m, n, rows], contiguous, of a convolution of each channel over a token and the tokens before it in
// its sample, as in Mamba (arXiv 2312.00752), at distances that are multiples of Step:
//
//	y_i = bias + Σ_j kernel[taps−1−j] · x[i − j·step], for j·step ≤ position of i
//
// Before x[0] lie the tokens of Before, and nothing before these.
//
// Threads share tokens and channels, and the result does not depend on their number. It is an op of the CPU backend, and has no
// backward for [ggml.Graph.Backward]; [ShortConvolutionGrad] returns the gradient of X.
func ShortConvolution(c *ggml.Context, s ShortConv) *ggml.Tensor {
	all, p := s.operands()
	return c.BuildOp(shortConvolution.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if requireShortConv(b, s); !b.OK() {
			return nil
		}
		return b.Native(shortConvolution, params(p), ggml.F32, s.X.Dim(0), s.X.Dim(1), s.X.Dim(2))
	})
}

// ShortConvolutionGrad returns the gradient of X in [ShortConvolution], of its shape and contiguous, given the gradient dY
// [m, n, rows] of the result, F32; the channels of a token are contiguous. It has no backward.
func ShortConvolutionGrad(c *ggml.Context, dy *ggml.Tensor, s ShortConv) *ggml.Tensor {
	all, p := s.operands(dy)
	return c.BuildOp(shortConvolutionGrad.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireShortConv(b, s)
		requireTokens(b, "dY", dy)
		if !b.OK() {
			return nil
		}
		x := s.X
		if b.Require(shapeOf(dy) == shapeOf(x), "dY must have the shape of X, %v", shapeOf(x)); !b.OK() {
			return nil
		}
		return b.Native(shortConvolutionGrad, params(p), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2))
	})
}

func requireShortConv(b *ggml.OpBuilder, s ShortConv) {
	const most = math.MaxInt32
	requireTokens(b, "X", s.X)
	requireF32(b, "Kernel", s.Kernel)
	x, m := s.X, s.X.Dim(0)
	b.Require(shapeOf(s.Kernel) == [4]int64{s.Kernel.Dim(0), m, 1, 1}, "Kernel must be [taps, m] for X [m, …], which has m = %d", m)
	b.Require(s.Step >= 1 && s.Step <= most, "Step is %d; it must be from 1 to %d", s.Step, most)
	b.Require(max(s.Kernel.Dim(0), m, x.Dim(1)) <= most, "a dimension is above %d", most)
	requireChunks(b, float64(x.NumElements())/64+float64(x.Dim(2)))
	if s.Before != nil {
		requireTokens(b, "Before", s.Before)
		b.Require(s.Before.Dim(0) == m && s.Before.Dim(2) == x.Dim(2), "Before must be [m, b, rows] for X [m, n, rows], [%d, b, %d]", m, x.Dim(2))
		b.Require(s.Before.Dim(1) <= most, "a dimension is above %d", most)
	}
	if s.Bias != nil {
		requireF32(b, "Bias", s.Bias)
		b.Require(shapeOf(s.Bias) == [4]int64{m, 1, 1, 1}, "Bias must be [%d]", m)
	}
	if s.Positions != nil {
		b.RequireType("Positions", s.Positions, ggml.I32)
		b.RequireContiguous("Positions", s.Positions)
		b.Require(shapeOf(s.Positions) == [4]int64{x.Dim(1), x.Dim(2), 1, 1}, "Positions must be [n, rows], [%d, %d]", x.Dim(1), x.Dim(2))
	}
}

// requireTokens requires F32 [m, n, rows] whose channels are contiguous.
func requireTokens(b *ggml.OpBuilder, what string, t *ggml.Tensor) {
	b.RequireType(what, t, ggml.F32)
	b.RequireContiguousRows(what, t)
	b.Require(t.Dim(3) == 1, "%s must have at most three dimensions", what)
}
