package ggml_test

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestInterpolation(t *testing.T) { runOps(t, interpolationCases()) }

func interpolationCases() []opCase {
	var ne [4]int64
	// scaled draws an operand and the shape of the result. Sizes of dimensions 2
	// and 3 are multiples: at others the element depends on how a quotient of
	// float32 rounds.
	scaled := func(d *draw) []arg {
		a := d.normal(d.size(9), d.size(9), d.size(3), d.size(2))
		ne = [4]int64{d.size(20), d.size(20), a.values.Ne[2] * d.size(2), a.values.Ne[3] * d.size(3)}
		return []arg{a}
	}
	mode := func(name string, mode ggml.ScaleMode, ref func(a refmath.Tensor) refmath.Tensor) opCase {
		return opCase{
			name: name, bound: places, args: scaled, runs: 20,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Interpolate(x[0], mode, ne[:]...) },
			want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	nearest := mode("nearest", ggml.ScaleNearest, func(a refmath.Tensor) refmath.Tensor { return refmath.ScaleNearest(a, ne) })
	nearest.args = func(d *draw) []arg {
		a := scaled(d)[0]
		for i := range ne {
			switch n := a.values.Ne[i]; {
			case n%2 == 0 && d.IntN(2) == 0:
				ne[i] = n / 2
			default:
				ne[i] = n * d.size(4)
			}
		}
		return []arg{a}
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
	upscale.build = func(c *ctx, x tensors) *ggml.Tensor { return c.Upscale(x[0], 3, ggml.ScaleBilinear) }
	return append(cases, upscale)
}

func ints(v [4]int64) [4]int { return [4]int{int(v[0]), int(v[1]), int(v[2]), int(v[3])} }

func TestImageOps(t *testing.T) { runOps(t, imageCases()) }

func imageCases() []opCase {
	var before, after [4]int64
	var n, m int64
	around := func(d *draw) []arg {
		ne := d.shape()
		for i := range ne {
			before[i], after[i] = d.Int64N(min(ne[i], 3)+1), d.Int64N(2*ne[i]+1)
		}
		return []arg{d.normal(ne[:]...)}
	}
	cases := []opCase{
		{
			name: "pad_ext", args: around,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadExt(x[0], ints(before), ints(after)) },
			want:  func(x refs) refmath.Tensor { return refmath.PadExt(x[0], before, after) },
		},
		{
			name: "pad_circular", args: around,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadCircular(x[0], ints(before), ints(after)) },
			want:  func(x refs) refmath.Tensor { return refmath.PadCircular(x[0], before, after) },
		},
		{
			name: "pad_reflect_1d", layouts: denseOnly,
			args: func(d *draw) []arg {
				ne := d.shape()
				n, m = d.Int64N(ne[0]), d.Int64N(ne[0])
				return []arg{d.normal(ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.PadReflect1D(x[0], int(n), int(m)) },
			want:  func(x refs) refmath.Tensor { return refmath.PadReflect1D(x[0], n, m) },
		},
		{
			name: "roll", layouts: denseRows,
			args: func(d *draw) []arg {
				ne := d.shape()
				for i := range before {
					before[i] = d.Int64N(200) - 100
				}
				return []arg{d.normal(ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Roll(x[0], ints(before)) },
			want: func(x refs) refmath.Tensor {
				s := before
				for i := range s {
					s[i] %= x[0].Ne[i]
				}
				return refmath.Roll(x[0], s[0], s[1], s[2], s[3])
			},
		},
		{
			name: "timestep_embedding", layouts: denseOnly, bound: angles,
			args: func(d *draw) []arg {
				n = d.size(40)
				return []arg{d.uniform(0, 20, d.size(9))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TimestepEmbedding(x[0], int(n), 1000) },
			want:  func(x refs) refmath.Tensor { return refmath.TimestepEmbedding(x[0], n, 1000) },
		},
		{
			name: "win_part", layouts: denseOnly,
			args: func(d *draw) []arg {
				n = d.size(5)
				return []arg{d.normal(d.size(9), d.size(12), d.size(12))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.WinPart(x[0], int(n)) },
			want:  func(x refs) refmath.Tensor { return refmath.WinPart(x[0], n) },
		},
		{
			name: "win_unpart", layouts: denseOnly,
			args: func(d *draw) []arg {
				a := d.f32(d.size(9), d.size(12), d.size(12))
				return []arg{{values: refmath.WinPart(a.values, d.size(5)), typ: ggml.F32}, a}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.WinUnpart(x[0], int(x[1].Dim(1)), int(x[1].Dim(2)))
			},
			want: func(x refs) refmath.Tensor { return x[1] },
		},
		{
			name: "get_rel_pos", types: []ggml.Type{ggml.F16}, layouts: denseOnly,
			args: func(d *draw) []arg {
				n = d.size(6)
				return []arg{d.normal(d.size(9), 2*n-1)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRelPos(x[0], int(n)) },
			want:  func(x refs) refmath.Tensor { return refmath.GetRelPos(x[0], n) },
		},
	}
	for part := ggml.UpperDiag; part <= ggml.Lower; part++ {
		cases = append(cases, opCase{
			name: fmt.Sprintf("tri_%d", part), layouts: denseOnly,
			args: func(d *draw) []arg {
				n := d.size(12)
				return []arg{d.normal(n, n, d.size(3), d.size(2))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Tri(x[0], part) },
			want:  func(x refs) refmath.Tensor { return refmath.Triangle(x[0], refmath.Tri(part)) },
		})
	}
	relPos := opCase{
		name: "add_rel_pos", layouts: denseOnly, bound: few,
		args: func(d *draw) []arg {
			n, w, h, batch := d.size(5), d.size(4), d.size(4), d.size(3)
			return []arg{d.normal(n*n, w*h, batch), d.normal(n, w, h, batch), d.normal(n, w, h, batch)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddRelPos(x[0], x[1], x[2]) },
		want:  func(x refs) refmath.Tensor { return refmath.AddRelPos(x[0], x[1], x[2]) },
	}
	relPosInPlace := relPos
	relPosInPlace.name += "_inplace"
	relPosInPlace.build = func(c *ctx, x tensors) *ggml.Tensor { return c.AddRelPosInPlace(x[0], x[1], x[2]) }
	return append(cases, relPos, inPlace(relPosInPlace))
}
