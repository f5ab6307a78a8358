package ggml_test

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func interpolationCases() []opCase {
	var ne [4]int64
	// scaled draws an operand and the shape of the result. Sizes of dimensions 2 and 3 are
	// multiples: otherwise the selected element depends on the rounding of a float32 quotient.
	scaled := func(d *draw) []operand {
		a := d.Normal(d.Size(9), d.Size(9), d.Size(3), d.Size(2))
		ne = [4]int64{d.Size(20), d.Size(20), a.Values.Ne[2] * d.Size(2), a.Values.Ne[3] * d.Size(3)}
		return []operand{a}
	}
	mode := func(name string, mode ggml.ScaleMode, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			Name: name, Bound: optest.Interpolation, Operands: scaled, Runs: 20,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Interpolate(x[0], mode, ne[:]...) },
			Want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	nearest := mode("nearest", ggml.ScaleNearest, func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleNearest(a, ne) })
	nearest.Operands = func(d *draw) []operand {
		a := scaled(d)[0]
		for i := range ne {
			switch n := a.Values.Ne[i]; {
			case n%2 == 0 && d.IntN(2) == 0:
				ne[i] = n / 2
			default:
				ne[i] = n * d.Size(4)
			}
		}
		return []operand{a}
	}
	cases := []opCase{
		nearest,
		mode("antialias", ggml.ScaleBilinear|ggml.ScaleAntialias, func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleAntialias(a, ne) }),
	}
	for _, align := range []bool{false, true} {
		flag := ggml.ScaleMode(0)
		if align {
			flag = ggml.ScaleAlignCorners
		}
		cases = append(cases,
			mode(fmt.Sprintf("bilinear_align_%v", align), ggml.ScaleBilinear|flag, func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBilinear(a, ne, align) }),
			mode(fmt.Sprintf("bicubic_align_%v", align), ggml.ScaleBicubic|flag, func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleBicubic(a, ne, align) }))
	}
	upscale := mode("upscale", ggml.ScaleBilinear, func(a refmath.Tensor) refmath.Tensor {
		return refmath.ScaleBilinear(a, [4]int64{3 * a.Ne[0], 3 * a.Ne[1], a.Ne[2], a.Ne[3]}, false)
	})
	upscale.Build = func(c *ctx, x tensors) *ggml.Tensor { return c.Upscale(x[0], 3, ggml.ScaleBilinear) }
	return append(cases, upscale)
}

func ints(v [4]int64) [4]int { return [4]int{int(v[0]), int(v[1]), int(v[2]), int(v[3])} }

func imageCases() []opCase {
	var before, after [4]int64
	var n, m int64
	around := func(d *draw) []operand {
		ne := d.Shape()
		for i := range ne {
			before[i], after[i] = d.Int64N(min(ne[i], 3)+1), d.Int64N(2*ne[i]+1)
		}
		return []operand{d.Normal(ne[:]...)}
	}
	cases := []opCase{
		{
			Name: "pad_ext", Operands: around,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadExt(x[0], ints(before), ints(after)) },
			Want:  func(x refs) refmath.Tensor { return refmath.PadExt(x[0], before, after) },
		},
		{
			Name: "pad_circular", Operands: around,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadCircular(x[0], ints(before), ints(after)) },
			Want:  func(x refs) refmath.Tensor { return refmath.PadCircular(x[0], before, after) },
		},
		{
			Name: "pad_reflect_1d", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				ne := d.Shape()
				n, m = d.Int64N(ne[0]), d.Int64N(ne[0])
				return []operand{d.Normal(ne[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadReflect1D(x[0], int(n), int(m)) },
			Want:  func(x refs) refmath.Tensor { return refmath.PadReflect1D(x[0], n, m) },
		},
		{
			Name: "roll", Layouts: optest.ContiguousRows,
			Operands: func(d *draw) []operand {
				ne := d.Shape()
				for i := range before {
					before[i] = d.Int64N(200) - 100
				}
				return []operand{d.Normal(ne[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Roll(x[0], ints(before)) },
			Want: func(x refs) refmath.Tensor {
				s := before
				for i := range s {
					s[i] %= x[0].Ne[i]
				}
				return refmath.Roll(x[0], s[0], s[1], s[2], s[3])
			},
		},
		{
			Name: "timestep_embedding", Layouts: optest.ContiguousOnly, Bound: optest.Angles,
			Operands: func(d *draw) []operand {
				n = d.Size(40)
				return []operand{d.Uniform(0, 20, d.Size(9))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.TimestepEmbedding(x[0], int(n), 1000) },
			Want:  func(x refs) refmath.Tensor { return refmath.TimestepEmbedding(x[0], n, 1000) },
		},
		{
			Name: "win_part", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				n = d.Size(5)
				return []operand{d.Normal(d.Size(9), d.Size(12), d.Size(12))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.WinPart(x[0], int(n)) },
			Want:  func(x refs) refmath.Tensor { return refmath.WinPart(x[0], n) },
		},
		{
			Name: "win_unpart", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				a := d.F32(d.Size(9), d.Size(12), d.Size(12))
				return []operand{{Values: refmath.WinPart(a.Values, d.Size(5)), Type: ggml.F32}, a}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.WinUnpart(x[0], int(x[1].Dim(1)), int(x[1].Dim(2)))
			},
			Want: func(x refs) refmath.Tensor { return x[1] },
		},
		{
			Name: "get_rel_pos", Types: []ggml.Type{ggml.F16}, Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				n = d.Size(6)
				return []operand{d.Normal(d.Size(9), 2*n-1)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRelPos(x[0], int(n)) },
			Want:  func(x refs) refmath.Tensor { return refmath.GetRelPos(x[0], n) },
		},
	}
	for part := ggml.UpperDiag; part <= ggml.Lower; part++ {
		cases = append(cases, opCase{
			Name: fmt.Sprintf("tri_%d", part), Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				n := d.Size(12)
				return []operand{d.Normal(n, n, d.Size(3), d.Size(2))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Tri(x[0], part) },
			Want:  func(x refs) refmath.Tensor { return refmath.Triangle(x[0], refmath.Tri(part)) },
		})
	}
	relPos := opCase{
		Name: "add_rel_pos", Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings,
		Operands: func(d *draw) []operand {
			n, w, h, batch := d.Size(5), d.Size(4), d.Size(4), d.Size(3)
			return []operand{d.Normal(n*n, w*h, batch), d.Normal(n, w, h, batch), d.Normal(n, w, h, batch)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddRelPos(x[0], x[1], x[2]) },
		Want:  func(x refs) refmath.Tensor { return refmath.AddRelPos(x[0], x[1], x[2]) },
	}
	relPosInPlace := relPos
	relPosInPlace.Name += "_inplace"
	relPosInPlace.InPlace = true
	relPosInPlace.Build = func(c *ctx, x tensors) *ggml.Tensor { return c.AddRelPosInPlace(x[0], x[1], x[2]) }
	return append(cases, relPos, relPosInPlace)
}

func TestImageErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.Interpolate(m.a, 3, 8, 8) }, "interpolate(a f32[4, 3]): there is no scale mode 0x3"},
		{func(m *misuse) { m.c.Interpolate(m.a, ggml.ScaleBicubic|ggml.ScaleAntialias, 8, 8) }, "interpolate(a f32[4, 3]): only bilinear scaling has antialiasing"},
		{func(m *misuse) { m.c.Interpolate(m.a, ggml.ScaleNearest, 8, 0) }, "interpolate(a f32[4, 3]): ne1 is 0; it must be at least 1"},
		{func(m *misuse) { m.c.Upscale(m.a, 1, ggml.ScaleNearest) }, "upscale(a f32[4, 3]): the factor is 1; it must be 2 to 4194304"},
		{func(m *misuse) { m.c.PadExt(m.a, [4]int{-1}, [4]int{}) }, "pad_ext(a f32[4, 3]): the padding of dimension 0 is -1 and 0; it must not be negative, and less than 1073741824"},
		{func(m *misuse) { m.c.PadCircular(m.a, [4]int{5}, [4]int{}) }, "pad_ext_circular(a f32[4, 3]): dimension 0: the padding of 5 is longer than a, which has 4"},
		{func(m *misuse) { m.c.PadReflect1D(m.a, 4, 0) }, "pad_reflect_1d(a f32[4, 3]): the padding is 4 and 0; it must be less than ne0, which is 4"},
		{func(m *misuse) { m.c.Roll(m.q, [4]int{1}) }, "roll(q q8_0[32, 2]): a has type q8_0; it must have f32"},
		{func(m *misuse) { m.c.Tri(m.a, ggml.Lower) }, "tri(a f32[4, 3]): ne0 and ne1 are 4 and 3; they must be equal"},
		{func(m *misuse) { m.c.Tri(m.a, 4) }, "tri(a f32[4, 3]): there is no triangle 4"},
		{func(m *misuse) { m.c.TimestepEmbedding(m.vector(4), 0, 9) }, "timestep_embedding(v f32[4]): the dimension is 0; it must be 1 to 1073741823"},
		{func(m *misuse) { m.c.TimestepEmbedding(m.a, 4, 9) }, "timestep_embedding(a f32[4, 3]): a has 2 dimensions; it must be a vector"},
		{func(m *misuse) { m.c.WinPart(m.a, 0) }, "win_part(a f32[4, 3]): the window is 0; it must be 1 to 16383"},
		{func(m *misuse) { m.c.WinUnpart(m.a, 3, 3) }, "win_unpart(a f32[4, 3]): ne1 and ne2 are 3 and 1; they must be equal, and less than 16384"},
		{func(m *misuse) { m.c.GetRelPos(m.a, 2) }, "get_rel_pos(a f32[4, 3]): a has type f32; it must have f16"},
		{func(m *misuse) { m.c.AddRelPos(m.a, m.b, m.b) }, "add_rel_pos(a f32[4, 3], b f32[5, 2], b f32[5, 2]): a must be [n·n, qw·qh, batch], pw and ph [n, qw, qh, batch]"},
	})
}
