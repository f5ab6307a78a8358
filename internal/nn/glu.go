package nn

import "github.com/goggml/ggml"

// GLUOperands are an activation with its operands [m, n].
type GLUOperands struct {
	Act      ggml.GLU
	Gate, Up *ggml.Tensor
}

// GLUGrads are the gradients of the operands.
type GLUGrads struct{ Gate, Up *ggml.Tensor }

// GLU is act(gate) · up [m, n] (arXiv 2002.05202). The gradients may overwrite up, which nothing reads after them.
var GLU = &Op[GLUOperands, Result[GLUGrads]]{plainGLU}

// GLU returns act(gate) · up.
func (t *Tape) GLU(act ggml.GLU, gate, up *Value) *Value {
	gated := GLU.Build(t, GLUOperands{act, gate.T, up.T})
	return t.Op(gated.Y, func(dy *ggml.Tensor) []*ggml.Tensor {
		d := gated.Grad(dy)
		return []*ggml.Tensor{d.Gate, d.Up}
	}, gate, up)
}

func plainGLU(t *Tape, o GLUOperands) Result[GLUGrads] {
	return gluBy(t, o, func(dy, gate *ggml.Tensor) *ggml.Tensor { return t.C.Mul(dy, activationSlope(t.C, o.Act, gate)) })
}

// gluBy is GLU with a given gradient of the activation.
func gluBy(t *Tape, o GLUOperands, activationGrad func(dy, gate *ggml.Tensor) *ggml.Tensor) Result[GLUGrads] {
	c, gate, up := t.C, contiguous(t.C, o.Gate), contiguous(t.C, o.Up)
	return Result[GLUGrads]{c.GLUSplit(o.Act, gate, up), func(dy *ggml.Tensor) GLUGrads {
		return GLUGrads{Gate: activationGrad(c.Mul(dy, up), gate), Up: c.GLUSplit(o.Act, gate, dy)}
	}}
}

// activationSlope is the derivative of the activation of a GLU.
func activationSlope(c *ggml.Context, act ggml.GLU, g *ggml.Tensor) *ggml.Tensor {
	switch act {
	case ggml.SwiGLU: // σ·(1 + g·(1−σ))
		s := c.Sigmoid(g)
		return c.Mul(s, c.ScaleBias(c.Mul(g, c.ScaleBias(s, -1, 1)), 1, 1))
	case ggml.GeGLU:
		// ½(1+t) + ½g(1−t²)·u', with t = tanh(u), u = √(2/π)·(g + 0.044715 g³): the
		// slope of the smooth function, which some devices look up in a table
		const root, cube = 0.7978845608028654, 0.044715
		square := c.Sqr(g)
		t := c.Tanh(c.Mul(g, c.ScaleBias(square, root*cube, root)))
		inner := c.Mul(c.Mul(g, c.ScaleBias(c.Sqr(t), -0.5, 0.5)), c.ScaleBias(square, 3*root*cube, root))
		return c.Add(c.ScaleBias(t, 0.5, 0.5), inner)
	}
	return c.BuildOp("glu_grad", []*ggml.Tensor{g}, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.Require(false, "there is no gradient of %v; swiglu and geglu have one", act.String())
		return nil
	})
}
