package optest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A GradCase is an op whose backward is compared with central differences of the reference, for the loss Σ
// weights · op(…).
type GradCase struct {
	Name     string
	Operands func(d *Draw) []Operand
	Params   []int   // operands with a gradient
	Bound    float64 // of the relative error; 0 for 1e-4
	Build    func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor
	Want     func(x []refmath.Tensor) refmath.Tensor
}

// RunGradients computes the gradients of every case on each device.
func RunGradients(t *testing.T, cases []GradCase) {
	for _, k := range cases {
		t.Run(k.Name, func(t *testing.T) { k.run(t, Devices(t)) })
	}
}

func (k *GradCase) draw() *Draw {
	return (&Case{Name: k.Name, Layouts: ContiguousOnly}).draw(ggml.F32)
}

// run draws operands and computes the reference's gradients once for all devices.
func (k *GradCase) run(t *testing.T, devices []*Device) {
	d := k.draw()
	operands := k.Operands(d)
	x := valuesOf(operands)
	y := k.Want(x)
	weights := refmath.Uniform(d.Rand, 0.5, 1.5, y.Ne[:]...)
	want := k.numericGradients(x, weights)
	computed := 0
	for _, dev := range devices {
		got := k.gradients(t, dev, operands, weights, false)
		require.Equal(t, got, k.gradients(t, dev, operands, weights, true), "of the transposed result on %s", dev.Name)
		if got == nil {
			t.Logf("%s computes none of this", dev.Name)
			continue
		}
		computed++
		for i, p := range k.Params {
			require.LessOrEqual(t, refmath.RelativeError(got[i], want[i].Data), max(1e-4, k.Bound), "operand %d on %s", p, dev.Name)
		}
	}
	require.NotZero(t, computed, "no device computes this")
}

// numericGradients returns central differences of Σ weights · op for each of Params.
func (k *GradCase) numericGradients(x []refmath.Tensor, weights refmath.Tensor) (gradients []refmath.Tensor) {
	for _, p := range k.Params {
		exact := x[p]
		gradients = append(gradients, refmath.NumericGradient(exact, 1e-5, func(probe refmath.Tensor) float64 {
			x[p] = probe
			return refmath.Sum(refmath.Mul(k.Want(x), weights)).Data[0]
		}))
		x[p] = exact
	}
	return gradients
}

// gradients computes the gradients of Σ weights · op, if the device takes part.
func (k *GradCase) gradients(t *testing.T, dev *Device, operands []Operand, weights refmath.Tensor, transposed bool) [][]float32 {
	p := newProgram(append(operands, Operand{Values: weights, Type: ggml.F32}), func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor {
		for _, i := range k.Params {
			x[i].SetParam()
		}
		y, w := k.Build(c, x), x[len(operands)]
		if transposed { // and so is the gradient of the result
			y, w = c.Transpose(y), c.Cont(c.Transpose(w))
		}
		return c.Sum(c.Mul(w, y)).SetLoss()
	})
	defer p.close()
	g := p.c.NewTrainingGraph(p.y)
	require.NoError(t, g.Backward())
	for _, i := range k.Params {
		g.Expand(Found(g.Grad(p.x[i])).SetOutput())
	}
	if !dev.takes(g) {
		return nil
	}
	buffers := need.Value(p.leaves.Allocate(dev.BufferType()))(t)
	defer buffers.Close()
	for i, o := range operands {
		o.Write(t, p.x[i])
	}
	require.NoError(t, ggml.Write(p.x[len(operands)], weights.Float32()))
	require.NoError(t, dev.scheduler.Allocate(g))
	var out [][]float32
	for range 2 { // computing again gives the same gradients
		require.NoError(t, g.Reset())
		require.NoError(t, dev.scheduler.Compute(context.Background(), g))
		var now [][]float32
		for _, i := range k.Params {
			now = append(now, Values(t, Found(g.Grad(p.x[i]))))
		}
		if out != nil {
			require.Equal(t, out, now)
		}
		out = now
	}
	return out
}

// CheckBackward requires that every op of the cases for which Backward works has its gradients compared with
// central differences. It returns how many cases have a backward.
func CheckBackward(t *testing.T, cases []Case, gradients []GradCase) int {
	tested := map[string]bool{}
	for _, k := range gradients {
		p := newProgram(k.Operands(k.draw()), k.Build)
		for n := range p.c.NewGraph(p.y).Nodes() {
			tested[n.Op()] = true
		}
		require.NoError(t, p.c.Err())
		p.close()
	}
	count := 0
	for _, k := range cases {
		k.fill()
		if k.Types[0] != ggml.F32 || strings.HasPrefix(k.Name, "opt_step") {
			continue // ops of ggml's own backward
		}
		p := newProgram(k.Operands(k.draw(ggml.F32)), func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor {
			for _, leaf := range x {
				if leaf.Type() == ggml.F32 {
					leaf.SetParam()
				}
			}
			return k.Build(c, x)
		})
		ops := p.backwardOps()
		for _, op := range ops {
			assert.True(t, tested[op], "%s: the gradients of %s are not tested", k.Name, op)
		}
		if ops != nil {
			count++
		}
		p.close()
	}
	return count
}

// backwardOps returns the ops that gradients flow through; nil if the program has no backward.
func (p *program) backwardOps() []string {
	if p.y.Type() != ggml.F32 {
		return nil
	}
	forward := p.c.NewTrainingGraph(p.c.Sum(p.y).SetLoss())
	var ops []string
	for n := range forward.Nodes() {
		if n.Op() != "none" && n.Op() != "sgn" && n.Op() != "step" { // gradients stop at these
			ops = append(ops, n.Op())
		}
	}
	if forward.Backward() != nil {
		return nil
	}
	return ops
}
