package ggml_test

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
)

// Short names for the tables of ops.
type (
	ctx     = ggml.Context
	tensors = []*ggml.Tensor
	refs    = []refmath.Tensor

	opCase   = optest.Case
	gradCase = optest.GradCase
	draw     = optest.Draw
	operand  = optest.Operand
)

// opCases lists all cases.
func opCases() []opCase {
	return slices.Concat(
		binaryCases(), unaryCases(), scalarCases(), gluCases(), gatedCases(),
		copyCases(), shapeCases(), concatCases(), partCases(), rowCases(), matrixCases(),
		reductionCases(), normCases(), softMaxCases(), ropeCases(), numberedCases(), attentionCases(), backwardCases(), optimizerCases(),
		convolutionCases(), poolCases(), interpolationCases(), imageCases(), recurrentCases(), hyperConnectCases(),
		unaryInPlaceCases(), binaryInPlaceCases(), rowsInPlaceCases(),
	)
}

// one draws a single operand of any shape.
func one(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(ne[:]...)} }

// pair draws two operands of one shape.
func pair(d *draw) []operand {
	ne := d.Shape()
	return []operand{d.Normal(ne[:]...), d.Normal(ne[:]...)}
}

// pair32 is pair with a second operand of F32.
func pair32(d *draw) []operand {
	ne := d.Shape()
	return []operand{d.Normal(ne[:]...), d.F32(ne[:]...)}
}

// float32 arithmetic on a small epsilon differs from float64's.
const eps = 1e-5

var eps64 = float64(float32(eps))
