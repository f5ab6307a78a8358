package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func poolCases() []opCase {
	var cases []opCase
	var dims [2]ggml.PoolDim
	var w [2]refmath.Window
	images := func(d *draw) []operand {
		var n [2]int64
		for i := range w {
			size := d.Size(4)
			w[i] = refmath.Window{Size: size, Stride: d.Size(3), Padding: d.Int64N(size)}
			dims[i] = ggml.PoolDim{Size: int(size), Stride: int(w[i].Stride), Padding: int(w[i].Padding)}
			n[i] = size + d.Size(6) - 1
		}
		return []operand{d.Normal(n[0], n[1], d.Size(3), d.Size(2))}
	}
	for kind, name := range map[ggml.Pool]string{ggml.PoolMax: "max", ggml.PoolAvg: "avg"} {
		largest := kind == ggml.PoolMax
		cases = append(cases, []opCase{
			{
				Name: "pool_1d_" + name, Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings,
				Operands: images,
				Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Pool1D(x[0], kind, dims[0]) },
				Want:     func(x refs) refmath.Tensor { return refmath.Pool1D(x[0], largest, w[0]) },
			},
			{
				Name: "pool_2d_" + name, Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: images,
				Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pool2D(x[0], kind, dims) },
				Want:  func(x refs) refmath.Tensor { return refmath.Pool2D(x[0], largest, w[0], w[1]) },
			},
			{
				Name: "pool_2d_back_" + name, Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
				Operands: func(d *draw) []operand {
					x := images(d)[0]
					shape := refmath.Pool2D(x.Values, largest, w[0], w[1]).Ne
					return []operand{d.Normal(shape[:]...), x}
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pool2DBack(x[0], x[1], kind, dims) },
				Want:  func(x refs) refmath.Tensor { return refmath.Pool2DBack(x[0], x[1], largest, w[0], w[1]) },
			},
		}...)
	}
	return cases
}

func TestPoolErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.Pool1D(m.a, 2, ggml.PoolDim{Size: 1}) }, "pool_1d(a f32[4, 3]): there is no pooling 2"},
		{func(m *misuse) { m.c.Pool1D(m.a, ggml.PoolMax, ggml.PoolDim{}) }, "pool_1d(a f32[4, 3]): dimension 0: a window of 0, stride 0, padding 0; size and stride must be 1 to 1048576, padding less than the size"},
		{func(m *misuse) { m.c.Pool1D(m.a, ggml.PoolMax, ggml.PoolDim{Size: 7, Padding: 1}) }, "pool_1d(a f32[4, 3]): dimension 0: a window of 7 does not fit into 4 and a padding of 1"},
		{func(m *misuse) { m.c.Pool2D(m.a, ggml.PoolMax, [2]ggml.PoolDim{{Size: 2, Padding: 2}, {Size: 2}}) }, "pool_2d(a f32[4, 3]): dimension 0: a window of 2, stride 2, padding 2; size and stride must be 1 to 1048576, padding less than the size"},
		{func(m *misuse) { m.c.Pool2D(m.a, ggml.PoolMax, [2]ggml.PoolDim{{Size: 2}, {Size: 4}}) }, "pool_2d(a f32[4, 3]): dimension 1: a window of 4 does not fit into 3 and a padding of 0"},
		{func(m *misuse) { m.c.Pool2DBack(m.a, m.image(), ggml.PoolMax, [2]ggml.PoolDim{{Size: 2}, {Size: 2}}) }, "pool_2d_back(a f32[4, 3], x f32[8, 8, 2]): grad must have the shape [4 4 2 1], as the result of pool_2d"},
	})
}
