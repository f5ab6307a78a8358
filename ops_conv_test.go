package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// A convolution draws its parameters with its operands, for build and want.
type slides struct {
	dims [3]ggml.ConvDim
	ref  [3]refmath.Slide
	k    [3]int64 // sizes of the kernel
	n    [3]int64 // sizes of the data, into which the kernel fits
}

func (s *slides) draw(d *draw) {
	for i := range s.dims {
		r := refmath.Slide{Stride: d.size(3), Padding: d.size(3) - 1, Dilation: d.size(2)}
		s.ref[i] = r
		s.dims[i] = ggml.ConvDim{Stride: int(r.Stride), Padding: int(r.Padding), Dilation: int(r.Dilation)}
		if r.Stride == 1 {
			s.dims[i].Stride = 0
		}
		s.k[i] = d.size(3)
		s.n[i] = d.size(7) + r.Dilation*(s.k[i]-1)
	}
}

func (s *slides) two() [2]ggml.ConvDim { return [2]ggml.ConvDim(s.dims[:2]) }

var one1 = refmath.Slide{Stride: 1, Dilation: 1}

// flat takes a tensor of one spatial dimension as one of two, with a size of 1.
func flat(t refmath.Tensor) refmath.Tensor {
	return refmath.Reshape(t, t.Ne[0], 1, t.Ne[1], t.Ne[2])
}

// thin undoes flat.
func thin(t refmath.Tensor) refmath.Tensor {
	return refmath.Reshape(t, t.Ne[0], t.Ne[2], t.Ne[3])
}

func TestConvolutions(t *testing.T) { runOps(t, convolutionCases()) }

func convolutionCases() []opCase {
	var s slides
	var channels, stride, crop int64
	halves := []ggml.Type{ggml.F32, ggml.F16}
	images := func(d *draw) []arg {
		s.draw(d)
		c := d.size(4)
		return []arg{d.normal(s.k[0], s.k[1], c, d.size(4)), d.f32(s.n[0], s.n[1], c, d.size(3))}
	}
	depthwise := func(d *draw) []arg {
		s.draw(d)
		c := d.size(9)
		return []arg{d.normal(s.k[0], s.k[1], 1, c), d.f32(s.n[0], s.n[1], c, d.size(3))}
	}
	volumes := func(d *draw) []arg {
		s.draw(d)
		channels = d.size(3)
		return []arg{d.normal(s.k[0], s.k[1], s.k[2], channels*d.size(3)), d.f32(s.n[0], s.n[1], s.n[2], channels*d.size(3))}
	}
	cases := []opCase{
		{
			name: "im2col", types: halves, bound: few, args: images,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Im2Col(x[0], x[1], x[0].Type(), s.dims[:2]...) },
			want:  func(x refs) refmath.Tensor { return refmath.Im2Col(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			name: "im2col_1d", types: halves, bound: few,
			args: func(d *draw) []arg {
				s.draw(d)
				c := d.size(4)
				return []arg{d.normal(s.k[0], c, d.size(3)), d.f32(s.n[0], c, d.size(3))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Im2Col(x[0], x[1], x[0].Type(), s.dims[0]) },
			want: func(x refs) refmath.Tensor {
				y := refmath.Im2Col(flat(x[0]), flat(x[1]), s.ref[0], one1)
				return refmath.Reshape(y, y.Ne[0], y.Ne[1], y.Ne[3])
			},
		},
		{
			name: "im2col_3d", types: halves, bound: few, args: volumes,
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Im2Col3D(x[0], x[1], int(channels), x[0].Type(), s.dims)
			},
			want: func(x refs) refmath.Tensor { return refmath.Im2Col3D(x[0], x[1], channels, s.ref) },
		},
		{
			name: "im2col_back", bound: sums,
			args: func(d *draw) []arg {
				x := images(d)
				shape := refmath.Im2Col(x[0].values, x[1].values, s.ref[0], s.ref[1]).Ne
				return []arg{d.f32(shape[:]...), x[0], x[1]}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				var shape [4]int64
				for i := range shape {
					shape[i] = x[2].Dim(i)
				}
				return c.Im2ColBack(x[0], x[1], shape, s.dims[:2]...)
			},
			want: func(x refs) refmath.Tensor { return refmath.Im2ColBack(x[0], x[1], x[2].Ne, s.ref[0], s.ref[1]) },
		},
		{
			name: "conv_1d", types: halves, bound: convolved,
			args: func(d *draw) []arg {
				s.draw(d)
				c := d.size(9)
				return []arg{d.normal(s.k[0], c, d.size(4)), d.f32(s.n[0], c, d.size(3))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv1D(x[0], x[1], s.dims[0]) },
			want:  func(x refs) refmath.Tensor { return thin(refmath.Conv2D(flat(x[0]), flat(x[1]), s.ref[0], one1)) },
		},
		{
			name: "conv_1d_dw", types: halves, bound: convolved,
			args: func(d *draw) []arg {
				s.draw(d)
				c := d.size(9)
				return []arg{d.normal(s.k[0], 1, c), d.f32(s.n[0], c)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise1D(x[0], x[1], s.dims[0]) },
			want: func(x refs) refmath.Tensor {
				kernel := refmath.Reshape(x[0], x[0].Ne[0], 1, 1, x[0].Ne[2])
				return thin(refmath.ConvDepthwise2D(kernel, flat(x[1]), s.ref[0], one1))
			},
		},
		{
			name: "conv_transpose_1d", types: halves, bound: products,
			args: func(d *draw) []arg {
				stride = d.size(3)
				c := d.size(9)
				return []arg{d.normal(d.size(5), d.size(5), c), d.f32(d.size(9), c)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvTranspose1D(x[0], x[1], int(stride)) },
			want: func(x refs) refmath.Tensor {
				kernel := refmath.Reshape(x[0], x[0].Ne[0], 1, x[0].Ne[1], x[0].Ne[2])
				return thin(refmath.ConvTranspose2D(kernel, flat(x[1]), stride, 1))
			},
		},
		{
			name: "col2im_1d", types: floatTypes, bound: sums,
			args: func(d *draw) []arg {
				stride, channels, crop = d.size(3), d.size(4), d.size(2)-1
				return []arg{d.normal((2*crop+d.size(5))*channels, d.size(9))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Col2Im1D(x[0], int(stride), int(channels), int(crop))
			},
			want: func(x refs) refmath.Tensor { return refmath.Col2Im1D(x[0], stride, channels, crop) },
		},
		{
			name: "conv_2d", types: halves, bound: convolved, args: images,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2D(x[0], x[1], s.two()) },
			want:  func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			name: "conv_2d_direct", types: halves, bound: products, args: images,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2DDirect(x[0], x[1], s.two()) },
			want:  func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			name: "conv_2d_dw", types: halves, bound: products, args: depthwise,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2D(x[0], x[1], s.two()) },
			want:  func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			name: "conv_2d_dw_direct", types: halves, bound: products, args: depthwise,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2DDirect(x[0], x[1], s.two()) },
			want:  func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s.ref[0], s.ref[1]) },
		},
		{
			name: "conv_transpose_2d", types: halves, bound: convolved,
			args: func(d *draw) []arg {
				stride = d.size(3)
				c := d.size(5)
				return []arg{d.normal(d.size(4), d.size(4), d.size(3), c), d.f32(d.size(5), d.size(5), c, d.size(3))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvTranspose2D(x[0], x[1], int(stride)) },
			want:  func(x refs) refmath.Tensor { return refmath.ConvTranspose2D(x[0], x[1], stride, stride) },
		},
		{
			name: "conv_3d", types: halves, bound: convolved, args: volumes,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv3D(x[0], x[1], int(channels), s.dims) },
			want:  func(x refs) refmath.Tensor { return refmath.Conv3D(x[0], x[1], channels, s.ref) },
		},
		{
			name: "conv_3d_direct", types: halves, bound: products, args: volumes,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv3DDirect(x[0], x[1], int(channels), s.dims) },
			want:  func(x refs) refmath.Tensor { return refmath.Conv3D(x[0], x[1], channels, s.ref) },
		},
	}
	for i := range cases {
		cases[i].layouts = denseOnly
	}
	return cases
}

func TestPooling(t *testing.T) { runOps(t, poolCases()) }

func poolCases() []opCase {
	var cases []opCase
	var dims [2]ggml.PoolDim
	var w [2]refmath.Window
	images := func(d *draw) []arg {
		var n [2]int64
		for i := range w {
			size := d.size(4)
			w[i] = refmath.Window{Size: size, Stride: d.size(3), Padding: d.Int64N(size)}
			dims[i] = ggml.PoolDim{Size: int(size), Stride: int(w[i].Stride), Padding: int(w[i].Padding)}
			n[i] = size + d.size(6) - 1
		}
		return []arg{d.normal(n[0], n[1], d.size(3), d.size(2))}
	}
	for kind, name := range map[ggml.Pool]string{ggml.PoolMax: "max", ggml.PoolAvg: "avg"} {
		largest := kind == ggml.PoolMax
		cases = append(cases, []opCase{
			{
				name: "pool_1d_" + name, types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: few,
				args:  images,
				build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pool1D(x[0], kind, dims[0]) },
				want:  func(x refs) refmath.Tensor { return refmath.Pool1D(x[0], largest, w[0]) },
			},
			{
				name: "pool_2d_" + name, types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: few, args: images,
				build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pool2D(x[0], kind, dims) },
				want:  func(x refs) refmath.Tensor { return refmath.Pool2D(x[0], largest, w[0], w[1]) },
			},
			{
				name: "pool_2d_back_" + name, layouts: denseOnly, bound: sums,
				args: func(d *draw) []arg {
					x := images(d)[0]
					shape := refmath.Pool2D(x.values, largest, w[0], w[1]).Ne
					return []arg{d.normal(shape[:]...), x}
				},
				build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pool2DBack(x[0], x[1], kind, dims) },
				want:  func(x refs) refmath.Tensor { return refmath.Pool2DBack(x[0], x[1], largest, w[0], w[1]) },
			},
		}...)
	}
	return cases
}

func convGradCases() []gradCase {
	dims := [2]ggml.ConvDim{{Stride: 2, Padding: 1}, {Padding: 1, Dilation: 2}}
	s0, s1 := refmath.Slide{Stride: 2, Padding: 1, Dilation: 1}, refmath.Slide{Stride: 1, Padding: 1, Dilation: 2}
	images := func(d *draw) []arg { return []arg{d.normal(3, 2, 2, 4), d.normal(7, 5, 2, 3)} }
	conv := func(x refs) refmath.Tensor { return refmath.Conv2D(x[0], x[1], s0, s1) }
	pool := func(name string, kind ggml.Pool, largest bool) gradCase {
		return gradCase{
			name: name, params: []int{0},
			args: func(d *draw) []arg { return []arg{d.normal(7, 6, 2, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Pool2D(x[0], kind, [2]ggml.PoolDim{{Size: 3, Stride: 2, Padding: 1}, {Size: 2}})
			},
			want: func(x refs) refmath.Tensor {
				return refmath.Pool2D(x[0], largest, refmath.Window{Size: 3, Stride: 2, Padding: 1}, refmath.Window{Size: 2, Stride: 2})
			},
		}
	}
	return []gradCase{
		pool("pool_2d_max", ggml.PoolMax, true), pool("pool_2d_avg", ggml.PoolAvg, false),
		// Data and kernel are rounded to F16.
		{
			name: "conv_2d", params: []int{0, 1}, bound: 2e-3, args: images, want: conv,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv2D(x[0], x[1], dims) },
		},
		{
			name: "conv_1d", params: []int{0, 1}, bound: 2e-3,
			args:  func(d *draw) []arg { return []arg{d.normal(3, 2, 4), d.normal(7, 2, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Conv1D(x[0], x[1], dims[0]) },
			want:  func(x refs) refmath.Tensor { return thin(refmath.Conv2D(flat(x[0]), flat(x[1]), s0, one1)) },
		},
		{
			name: "conv_1d_dw", params: []int{0, 1}, bound: 2e-3,
			args:  func(d *draw) []arg { return []arg{d.normal(3, 1, 4), d.normal(7, 4)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise1D(x[0], x[1], dims[0]) },
			want: func(x refs) refmath.Tensor {
				return thin(refmath.ConvDepthwise2D(refmath.Reshape(x[0], 3, 1, 1, 4), flat(x[1]), s0, one1))
			},
		},
		{
			name: "conv_2d_dw", params: []int{0, 1},
			args:  func(d *draw) []arg { return []arg{d.normal(3, 2, 1, 4), d.normal(7, 5, 4)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ConvDepthwise2D(x[0], x[1], dims) },
			want:  func(x refs) refmath.Tensor { return refmath.ConvDepthwise2D(x[0], x[1], s0, s1) },
		},
		// The same in F32.
		{
			name: "im2col", params: []int{0, 1}, args: images, want: conv,
			build: func(c *ctx, x tensors) *ggml.Tensor {
				rows := c.Im2Col(x[0], x[1], ggml.F32, dims[:]...)
				y := c.MulMat(c.Reshape(rows, rows.Dim(0), -1), c.Reshape(x[0], rows.Dim(0), x[0].Dim(3)))
				y = c.Reshape(y, rows.Dim(1), rows.Dim(2), rows.Dim(3), x[0].Dim(3))
				return c.Cont(c.Permute(y, [4]int{0, 1, 3, 2}))
			},
		},
	}
}
