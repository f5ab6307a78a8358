package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A slides draws the parameters of a convolution with its operands, for build and want.
type slides struct {
	dims [3]ggml.ConvDim
	ref  [3]refmath.Slide
	k    [3]int64 // sizes of the kernel
	n    [3]int64 // sizes of the data, into which the kernel fits
}

func (s *slides) draw(d *draw) {
	for i := range s.dims {
		r := refmath.Slide{Stride: d.Size(3), Padding: d.Size(3) - 1, Dilation: d.Size(2)}
		s.ref[i] = r
		s.dims[i] = ggml.ConvDim{Stride: int(r.Stride), Padding: int(r.Padding), Dilation: int(r.Dilation)}
		if r.Stride == 1 {
			s.dims[i].Stride = 0
		}
		s.k[i] = d.Size(3)
		s.n[i] = d.Size(7) + r.Dilation*(s.k[i]-1)
	}
}

func (s *slides) two() [2]ggml.ConvDim { return [2]ggml.ConvDim(s.dims[:2]) }

var one1 = refmath.Slide{Stride: 1, Dilation: 1}

// flat takes a tensor of one spatial dimension as one of two, with a size of 1.
func flat(t refmath.Tensor) refmath.Tensor {
	return refmath.Reshape(t, t.Ne[0], 1, t.Ne[1], t.Ne[2])
}

// unflat undoes flat.
func unflat(t refmath.Tensor) refmath.Tensor {
	return refmath.Reshape(t, t.Ne[0], t.Ne[2], t.Ne[3])
}

func convolutionCases() []opCase {
	var s slides
	var channels, stride, crop int64
	kernelTypes := []ggml.Type{ggml.F32, ggml.F16}
	images := func(d *draw) []operand {
		s.draw(d)
		c := d.Size(4)
		return []operand{d.Normal(s.k[0], s.k[1], c, d.Size(4)), d.F32(s.n[0], s.n[1], c, d.Size(3))}
	}
	depthwise := func(d *draw) []operand {
		s.draw(d)
		c := d.Size(9)
		return []operand{d.Normal(s.k[0], s.k[1], 1, c), d.F32(s.n[0], s.n[1], c, d.Size(3))}
	}
	volumes := func(d *draw) []operand {
		s.draw(d)
		channels = d.Size(3)
		return []operand{d.Normal(s.k[0], s.k[1], s.k[2], channels*d.Size(3)), d.F32(s.n[0], s.n[1], s.n[2], channels*d.Size(3))}
	}
	cases := []opCase{
		{
			Name: "im2col", Types: kernelTypes, Bound: optest.FewRoundings, Operands: images,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Im2Col(x[0], x[1], x[0].Type(), s.dims[:2]...) },
			Want:  func(x refs) refmath.Tensor { return refmath.Im2Col(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			Name: "im2col_1d", Types: kernelTypes, Bound: optest.FewRoundings,
			Operands: func(d *draw) []operand {
				s.draw(d)
				c := d.Size(4)
				return []operand{d.Normal(s.k[0], c, d.Size(3)), d.F32(s.n[0], c, d.Size(3))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Im2Col(x[0], x[1], x[0].Type(), s.dims[0]) },
			Want: func(x refs) refmath.Tensor {
				y := refmath.Im2Col(flat(x[0]), flat(x[1]), s.ref[0], one1)
				return refmath.Reshape(y, y.Ne[0], y.Ne[1], y.Ne[3])
			},
		},
		{
			Name: "im2col_3d", Types: kernelTypes, Bound: optest.FewRoundings, Operands: volumes,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Im2Col3D(x[0], x[1], ggml.Im2Col3DOptions{Channels: int(channels), Type: x[0].Type(), Dims: s.dims})
			},
			Want: func(x refs) refmath.Tensor { return refmath.Im2Col3D(x[0], x[1], channels, s.ref) },
		},
		{
			Name: "im2col_back", Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				x := images(d)
				shape := refmath.Im2Col(x[0].Values, x[1].Values, s.ref[0], s.ref[1]).Ne
				return []operand{d.F32(shape[:]...), x[0], x[1]}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				var shape [4]int64
				for i := range shape {
					shape[i] = x[2].Dim(i)
				}
				return c.Im2ColBack(x[0], x[1], shape, s.dims[:2]...)
			},
			Want: func(x refs) refmath.Tensor { return refmath.Im2ColBack(x[0], x[1], x[2].Ne, s.ref[0], s.ref[1]) },
		},
		{
			Name: "conv_1d", Types: kernelTypes, Bound: optest.Conv,
			Operands: func(d *draw) []operand {
				s.draw(d)
				c := d.Size(9)
				return []operand{d.Normal(s.k[0], c, d.Size(4)), d.F32(s.n[0], c, d.Size(3))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv1D(x[0], x[1], s.dims[0]) },
			Want:  func(x refs) refmath.Tensor { return unflat(refmath.Conv2D(flat(x[0]), flat(x[1]), s.ref[0], one1)) },
		},
		{
			Name: "conv_1d_dw", Types: kernelTypes, Bound: optest.Conv,
			Operands: func(d *draw) []operand {
				s.draw(d)
				c := d.Size(9)
				return []operand{d.Normal(s.k[0], 1, c), d.F32(s.n[0], c)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise1D(x[0], x[1], s.dims[0]) },
			Want: func(x refs) refmath.Tensor {
				kernel := refmath.Reshape(x[0], x[0].Ne[0], 1, 1, x[0].Ne[2])
				return unflat(refmath.ConvDepthwise2D(kernel, flat(x[1]), s.ref[0], one1))
			},
		},
		{
			Name: "conv_transpose_1d", Types: kernelTypes, Bound: optest.MulMat,
			Operands: func(d *draw) []operand {
				stride = d.Size(3)
				c := d.Size(9)
				return []operand{d.Normal(d.Size(5), d.Size(5), c), d.F32(d.Size(9), c)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvTranspose1D(x[0], x[1], int(stride)) },
			Want: func(x refs) refmath.Tensor {
				kernel := refmath.Reshape(x[0], x[0].Ne[0], 1, x[0].Ne[1], x[0].Ne[2])
				return unflat(refmath.ConvTranspose2D(kernel, flat(x[1]), stride, 1))
			},
		},
		{
			Name: "col2im_1d", Types: optest.FloatTypes, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				stride, channels, crop = d.Size(3), d.Size(4), d.Size(2)-1
				return []operand{d.Normal((2*crop+d.Size(5))*channels, d.Size(9))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Col2Im1D(x[0], int(stride), int(channels), int(crop))
			},
			Want: func(x refs) refmath.Tensor { return refmath.Col2Im1D(x[0], stride, channels, crop) },
		},
		{
			Name: "conv_2d", Types: kernelTypes, Bound: optest.Conv, Operands: images,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2D(x[0], x[1], s.two()) },
			Want:  func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			Name: "conv_2d_direct", Types: kernelTypes, Bound: optest.MulMat, Operands: images,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2DDirect(x[0], x[1], s.two()) },
			Want:  func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			Name: "conv_2d_dw", Types: kernelTypes, Bound: optest.MulMat, Operands: depthwise,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2D(x[0], x[1], s.two()) },
			Want:  func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			Name: "conv_2d_dw_direct", Types: kernelTypes, Bound: optest.MulMat, Operands: depthwise,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2DDirect(x[0], x[1], s.two()) },
			Want:  func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			Name: "conv_transpose_2d", Types: kernelTypes, Bound: optest.Conv,
			Operands: func(d *draw) []operand {
				stride = d.Size(3)
				c := d.Size(5)
				return []operand{d.Normal(d.Size(4), d.Size(4), d.Size(3), c), d.F32(d.Size(5), d.Size(5), c, d.Size(3))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvTranspose2D(x[0], x[1], int(stride)) },
			Want:  func(x refs) refmath.Tensor { return refmath.ConvTranspose2D(x[0], x[1], stride, stride) },
		},
		{
			Name: "conv_3d", Types: kernelTypes, Bound: optest.Conv, Operands: volumes,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv3D(x[0], x[1], int(channels), s.dims) },
			Want:  func(x refs) refmath.Tensor { return refmath.Conv3D(x[0], x[1], channels, s.ref) },
		},
		{
			Name: "conv_3d_direct", Types: kernelTypes, Bound: optest.MulMat, Operands: volumes,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv3DDirect(x[0], x[1], int(channels), s.dims) },
			Want:  func(x refs) refmath.Tensor { return refmath.Conv3D(x[0], x[1], channels, s.ref) },
		},
	}
	for i := range cases {
		cases[i].Layouts = optest.ContiguousOnly
	}
	return cases
}

func convGradCases() []gradCase {
	dims := [2]ggml.ConvDim{{Stride: 2, Padding: 1}, {Padding: 1, Dilation: 2}}
	s0, s1 := refmath.Slide{Stride: 2, Padding: 1, Dilation: 1}, refmath.Slide{Stride: 1, Padding: 1, Dilation: 2}
	images := func(d *draw) []operand { return []operand{d.Normal(3, 2, 2, 4), d.Normal(7, 5, 2, 3)} }
	conv := func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s0, s1) }
	pool := func(name string, kind ggml.Pool, largest bool) gradCase {
		return gradCase{
			Name: name, Params: []int{0},
			Operands: func(d *draw) []operand { return []operand{d.Normal(7, 6, 2, 2)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Pool2D(x[0], kind, [2]ggml.PoolDim{{Size: 3, Stride: 2, Padding: 1}, {Size: 2}})
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.Pool2D(x[0], largest, refmath.Window{Size: 3, Stride: 2, Padding: 1}, refmath.Window{Size: 2, Stride: 2})
			},
		}
	}
	return []gradCase{
		pool("pool_2d_max", ggml.PoolMax, true), pool("pool_2d_avg", ggml.PoolAvg, false),
		// Data and kernel are rounded to F16.
		{
			Name: "conv_2d", Params: []int{0, 1}, Bound: 2e-3, Operands: images, Want: conv,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2D(x[0], x[1], dims) },
		},
		{
			Name: "conv_1d", Params: []int{0, 1}, Bound: 2e-3,
			Operands: func(d *draw) []operand { return []operand{d.Normal(3, 2, 4), d.Normal(7, 2, 3)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Conv1D(x[0], x[1], dims[0]) },
			Want:     func(x refs) refmath.Tensor { return unflat(refmath.Conv2D(flat(x[0]), flat(x[1]), s0, one1)) },
		},
		{
			Name: "conv_1d_dw", Params: []int{0, 1}, Bound: 2e-3,
			Operands: func(d *draw) []operand { return []operand{d.Normal(3, 1, 4), d.Normal(7, 4)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise1D(x[0], x[1], dims[0]) },
			Want: func(x refs) refmath.Tensor {
				return unflat(refmath.ConvDepthwise2D(refmath.Reshape(x[0], 3, 1, 1, 4), flat(x[1]), s0, one1))
			},
		},
		{
			Name: "conv_2d_dw", Params: []int{0, 1},
			Operands: func(d *draw) []operand { return []operand{d.Normal(3, 2, 1, 4), d.Normal(7, 5, 4)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2D(x[0], x[1], dims) },
			Want:     func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s0, s1) },
		},
		// The same in F32.
		{
			Name: "im2col", Params: []int{0, 1}, Operands: images, Want: conv,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				rows := c.Im2Col(x[0], x[1], ggml.F32, dims[:]...)
				y := c.MulMat(c.Reshape(rows, rows.Dim(0), -1), c.Reshape(x[0], rows.Dim(0), x[0].Dim(3)))
				y = c.Reshape(y, rows.Dim(1), rows.Dim(2), rows.Dim(3), x[0].Dim(3))
				return c.Cont(c.Permute(y, [4]int{0, 1, 3, 2}))
			},
		},
	}
}

func TestConvErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.Conv2D(m.kernel(), m.a, [2]ggml.ConvDim{}) }, "conv_2d(k f32[3, 3, 2, 4], a f32[4, 3]): the channels differ: ne2 of the kernel is 2, ne2 of the data 1"},
		{func(m *misuse) { m.c.Conv2D(m.kernel(), m.image(), [2]ggml.ConvDim{{Stride: -1}}) }, "conv_2d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): dimension 0: stride -1, padding 0, dilation 1; stride and dilation must be at least 1, padding at least 0, none above 1048576"},
		{func(m *misuse) { m.c.Conv2D(m.kernel(), m.image(), [2]ggml.ConvDim{{}, {Dilation: 4}}) }, "conv_2d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): dimension 1: a kernel of 3 with dilation 4 does not fit into 8 and a padding of 0"},
		{func(m *misuse) { m.c.Conv2D(m.q, m.image(), [2]ggml.ConvDim{}) }, "conv_2d(q q8_0[32, 2], x f32[8, 8, 2]): kernel has type q8_0; it must have f16 or f32"},
		{func(m *misuse) { m.c.Conv2D(m.c.Transpose(m.kernel()), m.image(), [2]ggml.ConvDim{}) }, "conv_2d(k (transposed) f32[3, 3, 2, 4], x f32[8, 8, 2]): kernel must be contiguous; call Cont"},
		{func(m *misuse) { m.c.Im2Col(m.kernel(), m.image(), ggml.F32) }, "im2col(k f32[3, 3, 2, 4], x f32[8, 8, 2]): there are 0 dims; 1 or 2 can be given"},
		{func(m *misuse) { m.c.Im2Col(m.kernel(), m.image(), ggml.Q8_0, ggml.ConvDim{}) }, "im2col(k f32[3, 3, 2, 4], x f32[8, 8, 2]): the result has type q8_0; it must have f32 or f16"},
		{func(m *misuse) { m.c.Im2ColBack(m.a, m.kernel(), [4]int64{8, 8, 2, 1}, ggml.ConvDim{}, ggml.ConvDim{}) }, "im2col_back(a f32[4, 3], k f32[3, 3, 2, 4]): grad must have the shape [18 6 6 1], as the result of im2col"},
		{func(m *misuse) { m.c.Conv3D(m.kernel(), m.image(), 3, [3]ggml.ConvDim{}) }, "conv_3d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): ne3 of the kernel, 4, and of the data, 1, must be multiples of the 3 channels"},
		{func(m *misuse) { m.c.Conv3D(m.kernel(), m.image(), 0, [3]ggml.ConvDim{}) }, "conv_3d(k f32[3, 3, 2, 4], x f32[8, 8, 2]): ne3 of the kernel, 4, and of the data, 1, must be multiples of the 0 channels"},
		{func(m *misuse) { m.c.Col2Im1D(m.a, 1, 3, 0) }, "col2im_1d(a f32[4, 3]): ne0 is 4, no multiple of the 3 output channels"},
		{func(m *misuse) { m.c.Col2Im1D(m.a, 1, 1, 9) }, "col2im_1d(a f32[4, 3]): the result would have -12 elements in a row"},
		{func(m *misuse) { m.c.ConvTranspose1D(m.a, m.a, 0) }, "conv_transpose_1d(a f32[4, 3], a f32[4, 3]): the stride is 0; it must be 1 to 1048576"},
		{func(m *misuse) { m.c.ConvTranspose2D(m.c.NewTensor(ggml.F16, 2, 2).SetName("h"), m.a, 1<<31-1) }, "conv_transpose_2d_p0(h f16[2, 2], a f32[4, 3]): the stride is 2147483647; it must be 1 to 1048576"},
	})
}
