package ggml_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// plainTypes are those that Cont, Dup and Concat move.
var plainTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16}

func TestCopies(t *testing.T) {
	same := func(x refs) refmath.Tensor { return x[0] }
	cases := []opCase{
		{
			name: "cont", types: plainTypes, args: one, want: same,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0]) },
		},
		{
			name: "dup", types: plainTypes, args: one, want: same,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Dup(x[0]) },
		},
		{
			name: "cont_shape", types: plainTypes,
			args:  func(d *draw) []arg { return []arg{d.normal(d.size(9), d.size(4), 6, d.size(3))} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0], -1, 3) },
			want:  func(x refs) refmath.Tensor { return refmath.Reshape(x[0], int64(x[0].Len())/3, 3) },
		},
		{
			name:  "cont_ids",
			args:  func(d *draw) []arg { a := d.ids(99, 5, 3, 2); a.layout = d.layout(); return []arg{a} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0]) }, want: same,
		},
	}
	for _, to := range plainTypes {
		// The conversion rounds as refmath does.
		want := func(x refs) refmath.Tensor { return rounded(x[0], to) }
		cases = append(cases, opCase{
			name: "cast_to_" + to.String(), types: plainTypes, args: one, want: want,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) },
		}, opCase{
			name: "copy_to_" + to.String(), types: plainTypes, want: want,
			args: func(d *draw) []arg {
				a := one(d)[0]
				b := d.f32(a.values.Ne[:]...).as(to)
				b.layout = d.layout()
				return []arg{a, b}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		})
	}
	runOps(t, append(cases,
		opCase{
			name: "cast_quantized", types: slices.DeleteFunc(weightTypes(), func(t ggml.Type) bool { return !t.Quantized() }),
			layouts: denseOnly, bound: 1e-6, runs: 3, want: same,
			args: func(d *draw) []arg {
				a := d.normal(d.typ.BlockSize()*d.size(2), d.size(4), d.size(2))
				return []arg{a}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.F32) },
		},
		opCase{
			name: "cast_i32_to_f32", want: same,
			args:  func(d *draw) []arg { return []arg{d.ids(99, 7, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.F32) },
		},
		opCase{
			name: "cast_f32_to_i32", want: func(x refs) refmath.Tensor { return refmath.Trunc(x[0]) },
			args:  func(d *draw) []arg { return []arg{d.uniform(-9, 9, 7, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.I32) },
		},
	))
}

// Casting to a quantised type gives about the values that Quantize gives,
// which searches for the best scales.
func TestCastToQuantized(t *testing.T) {
	for _, typ := range weightTypes() {
		if !typ.Quantized() || typ.NeedsImportance() {
			continue
		}
		for _, m := range machines(t) {
			src := normal(5, 512)
			leaves, c := ggml.NewContext(), ggml.NewContext()
			x := leaves.NewTensor(ggml.F32, 256, 2)
			y := c.Cast(x, typ)
			buffers, err := leaves.Allocate(ggml.CPUBufferType())
			require.NoError(t, err)
			require.NoError(t, ggml.Write(x, src))
			if cpu(t).SupportsOp(y) {
				m.compute(t, c.NewGraph(y))
				got, err := y.Float32s()
				require.NoError(t, err)
				want := make([]float32, len(src))
				require.NoError(t, ggml.Dequantize(want, typ, quantized(t, typ, src, 256)))
				require.Less(t, refmath.NMSE(got, want), 1e-2, "%v on %s", typ, m.name)
			}
			buffers.Close()
			c.Close()
			leaves.Close()
		}
	}
}

func TestShapes(t *testing.T) {
	runOps(t, []opCase{
		{
			name: "reshape", layouts: denseOnly,
			args:  func(d *draw) []arg { return []arg{d.normal(6, d.size(4), 5)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Reshape(x[0], 10, -1, 3) },
			want:  func(x refs) refmath.Tensor { return refmath.Reshape(x[0], 10, int64(x[0].Len())/30, 3) },
		},
		{
			name: "view", layouts: denseOnly,
			args: func(d *draw) []arg { return []arg{d.normal(9, 7, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Cont(c.View(x[0], []int64{4, 3, 2}, []int64{2 * 9 * 4, 63 * 4}, (9+2)*4))
			},
			want: func(x refs) refmath.Tensor {
				return refmath.View(x[0], [4]int64{4, 3, 2, 1}, [3]int64{18, 63, 0}, 11)
			},
		},
		{
			name: "permute", args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Permute(x[0], [4]int{2, 0, 3, 1}) },
			want:  func(x refs) refmath.Tensor { return refmath.Permute(x[0], 2, 0, 3, 1) },
		},
		{
			name: "transpose", args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Transpose(x[0]) },
			want:  func(x refs) refmath.Tensor { return refmath.Transpose(x[0]) },
		},
		{
			name: "repeat", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseRows,
			args: func(d *draw) []arg { return []arg{d.normal(d.size(9), 2, 1, 3)} },
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Repeat(x[0], 2*x[0].Dim(0), 4, 3, 3)
			},
			want: func(x refs) refmath.Tensor { return refmath.Repeat(x[0], 2*x[0].Ne[0], 4, 3, 3) },
		},
		{
			name: "repeat_ids", layouts: denseOnly,
			args:  func(d *draw) []arg { return []arg{d.ids(9, 3, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Repeat(x[0], 6, 2, 2) },
			want:  func(x refs) refmath.Tensor { return refmath.Repeat(x[0], 6, 2, 2) },
		},
		{
			name: "repeat_back", layouts: denseRows, bound: 1e-6,
			args: func(d *draw) []arg {
				n := d.size(9)
				return []arg{d.normal(2*n, 4, 3, 2), d.f32(n, 2, 1, 2)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RepeatBack(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.RepeatBack(x[0], x[1].Ne[:]...) },
		},
		{
			name: "pad", layouts: denseOnly, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pad(x[0], [4]int{1, 2, 0, 3}) },
			want:  func(x refs) refmath.Tensor { return refmath.Pad(x[0], 1, 2, 0, 3) },
		},
	})
	for dim := range 4 {
		runOps(t, []opCase{{
			name: "concat" + string(rune('0'+dim)), types: plainTypes, layouts: anyLayout,
			args: func(d *draw) []arg {
				a := d.shape()
				b := a
				b[dim] = d.size(4)
				return []arg{d.normal(a[:]...), d.normal(b[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Concat(x[0], x[1], dim) },
			want:  func(x refs) refmath.Tensor { return refmath.Concat(x[0], x[1], dim) },
		}})
	}
}

func TestParts(t *testing.T) {
	// The part of a [9, 7, 2, 2] that begins at (2, 1, 0, 0).
	strides, offset := [3]int64{9, 63, 126}, int64(11)
	inBytes := [3]int64{4 * 9, 4 * 63, 4 * 126}
	args := func(d *draw) []arg {
		b := d.normal(5, 3, 2, d.size(2))
		b.layout = denseRows[d.IntN(len(denseRows))]
		return []arg{d.f32(9, 7, 2, 2), b}
	}
	runOps(t, []opCase{
		{
			name: "acc", args: args, bound: 1e-6,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Acc(x[0], x[1], inBytes, 4*offset) },
			want:  func(x refs) refmath.Tensor { return refmath.Acc(x[0], x[1], strides, offset) },
		},
		{
			name: "set", args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], inBytes, 4*offset) },
			want:  func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], strides, offset) },
		},
	})
}

func TestRows(t *testing.T) {
	back := func(ids refs) refmath.Tensor { return refmath.GetRowsBack(ids[0], ids[1], ids[2].Ne[1]) }
	runOps(t, []opCase{
		{
			name: "get_rows", types: weightTypes(), layouts: denseRows, bound: 1e-6, runs: 4,
			args: func(d *draw) []arg {
				rows, p, q := d.size(9), d.size(3), d.size(2)
				return []arg{d.matrix(d.depth(), rows, p, q), d.ids(rows, d.size(5), p, q)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			name: "get_rows_i32", layouts: denseOnly,
			args:  func(d *draw) []arg { return []arg{d.ids(99, 5, 4), d.ids(4, 7)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			name: "get_rows_back", layouts: denseOnly, bound: 1e-6, want: back,
			args: func(d *draw) []arg {
				n, rows, k := d.size(40), d.size(9), d.size(9)
				return []arg{d.normal(n, k), d.ids(rows, k), d.f32(n, rows)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRowsBack(x[0], x[1], x[2]) },
		},
	})
	for _, ids := range []ggml.Type{ggml.I32, ggml.I64} {
		runOps(t, []opCase{{
			name: "set_rows_" + ids.String(), types: plainTypes, layouts: denseOnly,
			args: func(d *draw) []arg {
				n, rows, p, q := d.size(40), 3+d.size(5), d.size(3), d.size(2)
				k := 1 + d.Int64N(3)
				to := refmath.New(k, p, q)
				for i := range to.Len() / int(k) {
					for j, row := range d.Perm(int(rows))[:k] {
						to.Data[i*int(k)+j] = float64(row)
					}
				}
				b := d.f32(n, k, p, q)
				b.layout = denseRows[d.IntN(len(denseRows))]
				return []arg{d.normal(n, rows, p, q), b, {values: to, typ: ids}}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SetRows(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.SetRows(x[0], x[1], x[2]) },
		}})
	}
}

// Write and Read are inverse to each other through any view, and leave what
// lies around it alone.
func TestWriteAndReadViews(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 6)
		var whole, part, start [3]int64
		for i := range whole {
			whole[i] = size.Draw(t, "whole")
			part[i] = rapid.Int64Range(1, whole[i]).Draw(t, "part")
			start[i] = rapid.Int64Range(0, whole[i]-part[i]).Draw(t, "start")
		}
		axes := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "axes")
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.I32, whole[:]...)
		offset := 4*start[0] + x.Stride(1)*start[1] + x.Stride(2)*start[2]
		v := c.Permute(c.View(x, part[:], []int64{x.Stride(1), x.Stride(2)}, offset), [4]int(axes))
		require.NoError(t, c.Err())
		buffers, err := c.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer buffers.Close()

		before := make([]int32, x.NumElements())
		for i := range before {
			before[i] = int32(i)
		}
		require.NoError(t, ggml.Write(x, before))
		seen, err := ggml.Read[int32](v)
		require.NoError(t, err)
		reference := refmath.Permute(refmath.View(refmath.From(before, whole[:]...), [4]int64{part[0], part[1], part[2], 1},
			[3]int64{whole[0], whole[0] * whole[1], 0}, offset/4), axes[0], axes[1], axes[2], axes[3])
		require.Equal(t, reference.Int32(), seen)

		written := make([]int32, len(seen))
		for i := range written {
			written[i] = -int32(i) - 1
		}
		require.NoError(t, ggml.Write(v, written))
		seen2, err := ggml.Read[int32](v)
		require.NoError(t, err)
		require.Equal(t, written, seen2)
		after, err := ggml.Read[int32](x)
		require.NoError(t, err)
		inside := map[int32]bool{}
		for _, i := range seen {
			inside[i] = true
		}
		for i, got := range after {
			require.Equal(t, !inside[int32(i)], got == int32(i), "element %d", i)
		}
		require.NoError(t, v.Fill(0))
		after, err = ggml.Read[int32](x)
		require.NoError(t, err)
		for i, got := range after {
			want := int32(i)
			if inside[want] {
				want = 0
			}
			require.Equal(t, want, got)
		}
	})
}
