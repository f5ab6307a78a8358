package ggml_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// movedTypes are those that Cont, Dup and Concat take.
var movedTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.I32, ggml.I64}

// plainTypes are those of them that are converted to each other.
var plainTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16}

// storedTypes lists the quantised types to which the CPU converts.
func storedTypes() []ggml.Type {
	none := append([]ggml.Type{ggml.IQ3XXS, ggml.IQ3S}, slowTypes...)
	return slices.DeleteFunc(quantizedTypes(), func(t ggml.Type) bool { return slices.Contains(none, t) })
}

func quantizedTypes() []ggml.Type {
	return slices.DeleteFunc(weightTypes(), func(t ggml.Type) bool { return !t.Quantized() })
}

func TestCopies(t *testing.T) { runOps(t, copyCases()) }

func copyCases() []opCase {
	same := func(x refs) refmath.Tensor { return x[0] }
	cases := []opCase{
		{
			name: "cont", types: movedTypes, args: one, want: same,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0]) },
		},
		{
			name: "dup", types: append([]ggml.Type{ggml.I16}, movedTypes...), args: one, want: same,
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
	var to ggml.Type
	return append(cases,
		opCase{
			name: "cast_to_quantized", types: storedTypes(), runs: 3, want: same,
			args: func(d *draw) []arg {
				to = d.typ
				return []arg{d.f32(2*d.typ.BlockSize(), d.size(4), d.size(2))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) },
		},
		halfToQuantized("f16", ggml.F16), halfToQuantized("bf16", ggml.BF16),
		opCase{
			name: "copy_to_quantized", types: storedTypes(), layouts: denseOnly, runs: 3, want: same,
			args: func(d *draw) []arg {
				a := d.f32(2*d.typ.BlockSize(), d.size(4), d.size(2))
				return []arg{a, d.normal(a.values.Ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		},
		opCase{
			name: "cast_quantized", types: quantizedTypes(),
			layouts: denseOnly, runs: 3, want: same,
			args: func(d *draw) []arg {
				return []arg{d.normal(d.rowLen(70), d.size(4), d.size(2))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.F32) },
		},
		opCase{
			name: "copy_from_quantized", types: quantizedTypes(), runs: 3, want: same,
			layouts: denseRows,
			args: func(d *draw) []arg {
				a := d.normal(d.rowLen(70), d.size(4), d.size(2))
				return []arg{a, d.f32(a.values.Ne[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
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
	)
}

// Tensors of any type are copied to their like.
func TestCopySameType(t *testing.T) {
	r := rng(9)
	for _, m := range machines(t)[:2] {
		for _, typ := range ggml.Types() {
			leaves, c := ggml.NewContext(), ggml.NewContext()
			a, b := leaves.NewTensor(typ, 256, 5), leaves.NewTensor(typ, 512, 5)
			spaced := c.View(b, []int64{256, 5}, []int64{b.Stride(1)}, typ.RowSize(256))
			copies := []*ggml.Tensor{c.Copy(a, spaced), c.Dup(a), c.Cont(a), c.DupInPlace(a)}
			var supported []*ggml.Tensor
			for _, y := range copies {
				if cpu(t).SupportsOp(y) {
					supported = append(supported, y)
				} else {
					require.Equal(t, "cpy", y.Op())
					require.Contains(t, append([]ggml.Type{ggml.IQ3XXS, ggml.IQ3S}, slowTypes...), typ)
				}
			}
			buffers, err := leaves.Allocate(ggml.CPUBufferType())
			require.NoError(t, err)
			want := make([]byte, a.NumBytes())
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			require.NoError(t, a.WriteBytes(want, 0))
			m.compute(t, c.NewGraph(supported...))
			got := make([]byte, a.Stride(1))
			for _, y := range supported {
				for row := range int64(5) {
					require.NoError(t, y.ReadBytes(got, row*y.Stride(1)))
					require.Equal(t, want[row*a.Stride(1):(row+1)*a.Stride(1)], got, "%s %v", y.Op(), typ)
				}
			}
			buffers.Close()
			c.Close()
			leaves.Close()
		}
	}
}

func TestShapes(t *testing.T) { runOps(t, shapeCases()) }

func shapeCases() []opCase {
	return []opCase{
		{
			name: "reshape", layouts: denseOnly,
			args:  func(d *draw) []arg { return []arg{d.normal(6, d.size(4), 5)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Reshape(x[0], 10, -1, 3) },
			want:  func(x refs) refmath.Tensor { return refmath.Reshape(x[0], 10, int64(x[0].Len())/30, 3) },
		},
		{
			name: "view", layouts: denseOnly, inBytes: true,
			args: func(d *draw) []arg { return []arg{d.normal(9, 7, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.View(x[0], []int64{4, 3, 2}, []int64{2 * 9 * 4, 63 * 4}, (9+2)*4)
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
			name: "repeat", types: []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.I16}, layouts: denseRows,
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
			name: "repeat_back", layouts: denseRows, bound: few,
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
	}
}

// halfToQuantized copies a half type to the quantised types.
func halfToQuantized(name string, half ggml.Type) opCase {
	return opCase{
		name: "copy_" + name + "_to_quantized", types: storedTypes(), layouts: denseOnly, runs: 8,
		args: func(d *draw) []arg {
			a := d.f32(2*d.typ.BlockSize(), d.size(4), d.size(2)).as(half)
			a.layout = denseRows[d.IntN(len(denseRows))]
			return []arg{a, d.normal(a.values.Ne[:]...)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		want:  func(x refs) refmath.Tensor { return x[0] },
	}
}

func TestConcat(t *testing.T) { runOps(t, concatCases()) }

func concatCases() []opCase {
	var cases []opCase
	for dim := range 4 {
		k := opCase{
			name: "concat" + string(rune('0'+dim)), types: append([]ggml.Type{ggml.I32, ggml.I8, ggml.I16}, plainTypes...), layouts: anyLayout,
			args: func(d *draw) []arg {
				a := d.shape()
				b := a
				b[dim] = d.size(4)
				if dim == 0 {
					b[0] = d.rowLen(4)
				}
				return []arg{d.normal(a[:]...), d.normal(b[:]...)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Concat(x[0], x[1], dim) },
			want:  func(x refs) refmath.Tensor { return refmath.Concat(x[0], x[1], dim) },
		}
		long := k
		long.name, long.types, long.layouts = k.name+"_long", []ggml.Type{ggml.I64, ggml.F64}, denseRows
		stored := k
		stored.name, stored.types, stored.layouts = k.name+"_quantized", quantizedTypes(), denseRows
		cases = append(cases, k, long, stored)
	}
	return cases
}

func TestParts(t *testing.T) { runOps(t, partCases()) }

func partCases() []opCase {
	// The part of a [9, 7, 2, 2] that begins at (2, 1, 0, 0).
	strides, offset := [3]int64{9, 63, 126}, int64(11)
	inBytes := [3]int64{4 * 9, 4 * 63, 4 * 126}
	args := func(d *draw) []arg {
		b := d.normal(5, 3, 2, d.size(2))
		b.layout = denseRows[d.IntN(len(denseRows))]
		return []arg{d.f32(9, 7, 2, 2), b}
	}
	return []opCase{
		{
			name: "acc", args: args, bound: few,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Acc(x[0], x[1], inBytes, 4*offset) },
			want:  func(x refs) refmath.Tensor { return refmath.Acc(x[0], x[1], strides, offset) },
		},
		{
			name: "set", args: args,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], inBytes, 4*offset) },
			want:  func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], strides, offset) },
		},
		{
			name:  "set_ids",
			args:  func(d *draw) []arg { return []arg{d.ids(99, 9, 7, 2, 2), d.ids(99, 5, 3, 2, 2)} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], inBytes, 4*offset) },
			want:  func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], strides, offset) },
		},
	}
}

func TestRows(t *testing.T) { runOps(t, rowCases()) }

func rowCases() []opCase {
	back := func(ids refs) refmath.Tensor { return refmath.GetRowsBack(ids[0], ids[1], ids[2].Ne[1]) }
	cases := []opCase{
		{
			name: "get_rows", types: weightTypes(), layouts: denseRows, runs: 4,
			args: func(d *draw) []arg {
				rows, p, q := d.size(9), d.size(3), d.size(2)
				return []arg{d.normal(d.depth(), rows, p, q), d.ids(rows, d.size(5), p, q)}
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
			name: "get_rows_back", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: denseOnly, bound: few, want: back,
			args: func(d *draw) []arg {
				n, rows, k := d.size(40), d.size(9), d.size(9)
				return []arg{d.normal(n, k), d.ids(rows, k), d.f32(n, rows)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRowsBack(x[0], x[1], x[2]) },
		},
	}
	for i := range 4 {
		ids, from := []ggml.Type{ggml.I32, ggml.I64}[i/2], []ggml.Type{ggml.F32, ggml.F16}[i%2]
		cases = append(cases, opCase{
			name: fmt.Sprintf("set_rows_%v_%v", ids, from), types: append(storedTypes(), plainTypes...), layouts: denseOnly,
			args: func(d *draw) []arg {
				n, rows, p, q := d.rowLen(40), 3+d.size(5), d.size(3), d.size(2)
				k := 1 + d.Int64N(3)
				to := refmath.New(k, p, q)
				for i := range to.Len() / int(k) {
					for j, row := range d.Perm(int(rows))[:k] {
						to.Data[i*int(k)+j] = float64(row)
					}
				}
				b := d.f32(n, k, p, q).as(from)
				b.layout = denseRows[d.IntN(len(denseRows))]
				return []arg{d.normal(n, rows, p, q), b, {values: to, typ: ids}}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SetRows(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.SetRows(x[0], x[1], x[2]) },
		})
	}
	return cases
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

// A view that was made after its tensor got memory has none of its own.
func TestWriteToLateView(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 3)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	turned := c.Transpose(x)
	require.NoError(t, turned.SetFloat32s([]float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, turned.WriteBytes(make([]byte, 4), 4))
	values, err := ggml.Read[float32](x)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 0, 2, 5, 3, 6}, values)
}
