package ggml_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// movedTypes lists the types of Cont, Dup and Concat.
var movedTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.I32, ggml.I64}

// plainTypes lists the types that are converted to each other.
var plainTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.F8E4M3}

func copyCases() []opCase {
	same := func(x refs) refmath.Tensor { return x[0] }
	cases := []opCase{
		{
			Name: "cont", Types: movedTypes, Operands: one, Want: same,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0]) },
		},
		{
			Name: "dup", Types: append([]ggml.Type{ggml.I16}, movedTypes...), Operands: one, Want: same,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Dup(x[0]) },
		},
		{
			Name: "cont_shape", Types: optest.FloatTypes,
			Operands: func(d *draw) []operand { return []operand{d.Normal(d.Size(9), d.Size(4), 6, d.Size(3))} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0], -1, 3) },
			Want:     func(x refs) refmath.Tensor { return refmath.Reshape(x[0], int64(x[0].Len())/3, 3) },
		},
		{
			Name:     "cont_ids",
			Operands: func(d *draw) []operand { a := d.Indices(99, 5, 3, 2); a.Layout = d.Layout(); return []operand{a} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Cont(x[0]) }, Want: same,
		},
	}
	for _, to := range plainTypes {
		// The conversion rounds as refmath does.
		want := func(x refs) refmath.Tensor { return optest.Rounded(x[0], to) }
		cases = append(cases, opCase{
			Name: "cast_to_" + to.String(), Types: plainTypes, Operands: one, Want: want,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) },
		}, opCase{
			Name: "copy_to_" + to.String(), Types: plainTypes, Want: want,
			Operands: func(d *draw) []operand {
				a := one(d)[0]
				b := d.F32(a.Values.Ne[:]...).As(to)
				b.Layout = d.Layout()
				return []operand{a, b}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		})
	}
	var to ggml.Type
	return append(cases,
		opCase{
			Name: "cast_to_quantized", Types: storedTypes(), Runs: 3, Want: same,
			Operands: func(d *draw) []operand {
				to = d.Type
				return []operand{d.F32(2*d.Type.BlockSize(), d.Size(4), d.Size(2))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], to) },
		},
		halfToQuantized("f16", ggml.F16), halfToQuantized("bf16", ggml.BF16),
		opCase{
			Name: "copy_to_quantized", Types: storedTypes(), Layouts: optest.ContiguousOnly, Runs: 3, Want: same,
			Operands: func(d *draw) []operand {
				a := d.F32(2*d.Type.BlockSize(), d.Size(4), d.Size(2))
				return []operand{a, d.Normal(a.Values.Ne[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		},
		opCase{
			Name: "cast_quantized", Types: quantizedTypes(),
			Layouts: optest.ContiguousOnly, Runs: 3, Want: same,
			Operands: func(d *draw) []operand {
				return []operand{d.Normal(d.RowLen(70), d.Size(4), d.Size(2))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.F32) },
		},
		opCase{
			Name: "copy_from_quantized", Types: quantizedTypes(), Runs: 3, Want: same,
			Layouts: optest.ContiguousRows,
			Operands: func(d *draw) []operand {
				a := d.Normal(d.RowLen(70), d.Size(4), d.Size(2))
				return []operand{a, d.F32(a.Values.Ne[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		},
		opCase{
			Name: "cast_i32_to_f32", Want: same,
			Operands: func(d *draw) []operand { return []operand{d.Indices(99, 7, 3)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.F32) },
		},
		opCase{
			Name: "cast_f32_to_i32", Want: func(x refs) refmath.Tensor { return refmath.Trunc(x[0]) },
			Operands: func(d *draw) []operand { return []operand{d.Uniform(-9, 9, 7, 3)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Cast(x[0], ggml.I32) },
		},
	)
}

// Tensors of any type can be copied to the same type.
func TestCopySameType(t *testing.T) {
	r := optest.RNG(9)
	for _, m := range optest.Devices(t)[:2] {
		for _, typ := range ggml.Types() {
			leaves, c := ggml.NewContext(), ggml.NewContext()
			a, b := leaves.NewTensor(typ, 256, 5), leaves.NewTensor(typ, 512, 5)
			spaced := c.View(b, []int64{256, 5}, []int64{b.Stride(1)}, typ.RowSize(256))
			copies := []*ggml.Tensor{c.Copy(a, spaced), c.Dup(a), c.Cont(a), c.DupInPlace(a)}
			var supported []*ggml.Tensor
			for _, y := range copies {
				if optest.CPU(t).SupportsOp(y) {
					supported = append(supported, y)
				} else {
					require.Equal(t, "cpy", y.Op())
					require.Contains(t, append([]ggml.Type{ggml.IQ3XXS, ggml.IQ3S}, optest.SlowTypes...), typ)
				}
			}
			buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
			want := make([]byte, a.NumBytes())
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			require.NoError(t, optest.Err(a.WriteAt(want, 0)))
			m.Compute(t, c.NewGraph(supported...))
			got := make([]byte, a.Stride(1))
			for _, y := range supported {
				for row := range int64(5) {
					require.NoError(t, optest.Err(y.ReadAt(got, row*y.Stride(1))))
					require.Equal(t, want[row*a.Stride(1):(row+1)*a.Stride(1)], got, "%s %v", y.Op(), typ)
				}
			}
			buffers.Close()
			c.Close()
			leaves.Close()
		}
	}
}

func shapeCases() []opCase {
	return []opCase{
		{
			Name: "reshape", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand { return []operand{d.Normal(6, d.Size(4), 5)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Reshape(x[0], 10, -1, 3) },
			Want:     func(x refs) refmath.Tensor { return refmath.Reshape(x[0], 10, int64(x[0].Len())/30, 3) },
		},
		{
			Name: "view", Layouts: optest.ContiguousOnly, ByteStrides: true,
			Operands: func(d *draw) []operand { return []operand{d.Normal(9, 7, 2)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.View(x[0], []int64{4, 3, 2}, []int64{2 * 9 * 4, 63 * 4}, (9+2)*4)
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.View(x[0], [4]int64{4, 3, 2, 1}, [3]int64{18, 63, 0}, 11)
			},
		},
		{
			Name: "permute", Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Permute(x[0], [4]int{2, 0, 3, 1}) },
			Want:  func(x refs) refmath.Tensor { return refmath.Permute(x[0], 2, 0, 3, 1) },
		},
		{
			Name: "transpose", Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Transpose(x[0]) },
			Want:  func(x refs) refmath.Tensor { return refmath.Transpose(x[0]) },
		},
		{
			Name: "repeat", Types: []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.I16}, Layouts: optest.ContiguousRows,
			Operands: func(d *draw) []operand { return []operand{d.Normal(d.Size(9), 2, 1, 3)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.Repeat(x[0], 2*x[0].Dim(0), 4, 3, 3)
			},
			Want: func(x refs) refmath.Tensor { return refmath.Repeat(x[0], 2*x[0].Ne[0], 4, 3, 3) },
		},
		{
			Name: "repeat_ids", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand { return []operand{d.Indices(9, 3, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Repeat(x[0], 6, 2, 2) },
			Want:     func(x refs) refmath.Tensor { return refmath.Repeat(x[0], 6, 2, 2) },
		},
		{
			Name: "repeat_back", Layouts: optest.ContiguousRows, Bound: optest.FewRoundings,
			Operands: func(d *draw) []operand {
				n := d.Size(9)
				return []operand{d.Normal(2*n, 4, 3, 2), d.F32(n, 2, 1, 2)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RepeatBack(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.RepeatBack(x[0], x[1].Ne[:]...) },
		},
		{
			Name: "pad", Layouts: optest.ContiguousOnly, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Pad(x[0], [4]int{1, 2, 0, 3}) },
			Want:  func(x refs) refmath.Tensor { return refmath.Pad(x[0], 1, 2, 0, 3) },
		},
	}
}

// halfToQuantized copies a 16-bit float type to the quantised types.
func halfToQuantized(name string, half ggml.Type) opCase {
	return opCase{
		Name: "copy_" + name + "_to_quantized", Types: storedTypes(), Layouts: optest.ContiguousOnly, Runs: 8,
		Operands: func(d *draw) []operand {
			a := d.F32(2*d.Type.BlockSize(), d.Size(4), d.Size(2)).As(half)
			a.Layout = optest.ContiguousRows[d.IntN(len(optest.ContiguousRows))]
			return []operand{a, d.Normal(a.Values.Ne[:]...)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Copy(x[0], x[1]) },
		Want:  func(x refs) refmath.Tensor { return x[0] },
	}
}

func concatCases() []opCase {
	var cases []opCase
	for dim := range 4 {
		k := opCase{
			Name: "concat" + string(rune('0'+dim)), Types: append([]ggml.Type{ggml.I32, ggml.I8, ggml.I16, ggml.I64}, plainTypes...), Layouts: optest.AnyLayout,
			Operands: func(d *draw) []operand {
				a := d.Shape()
				b := a
				b[dim] = d.Size(4)
				if dim == 0 {
					b[0] = d.RowLen(4)
				}
				return []operand{d.Normal(a[:]...), d.Normal(b[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Concat(x[0], x[1], dim) },
			Want:  func(x refs) refmath.Tensor { return refmath.Concat(x[0], x[1], dim) },
		}
		long := k
		long.Name, long.Types, long.Layouts = k.Name+"_long", []ggml.Type{ggml.I64, ggml.F64}, optest.ContiguousRows
		stored := k
		stored.Name, stored.Types, stored.Layouts = k.Name+"_quantized", quantizedTypes(), optest.ContiguousRows
		cases = append(cases, k, long, stored)
	}
	return cases
}

func partCases() []opCase {
	// The part of a [9, 7, 2, 2] that begins at (2, 1, 0, 0).
	strides, offset := [3]int64{9, 63, 126}, int64(11)
	inBytes := [3]int64{4 * 9, 4 * 63, 4 * 126}
	args := func(d *draw) []operand {
		b := d.Normal(5, 3, 2, d.Size(2))
		b.Layout = optest.ContiguousRows[d.IntN(len(optest.ContiguousRows))]
		return []operand{d.F32(9, 7, 2, 2), b}
	}
	return []opCase{
		{
			Name: "acc", Operands: args, Bound: optest.FewRoundings,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Acc(x[0], x[1], inBytes, 4*offset) },
			Want:  func(x refs) refmath.Tensor { return refmath.Acc(x[0], x[1], strides, offset) },
		},
		{
			Name: "set", Operands: args,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], inBytes, 4*offset) },
			Want:  func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], strides, offset) },
		},
		{
			Name:     "set_ids",
			Operands: func(d *draw) []operand { return []operand{d.Indices(99, 9, 7, 2, 2), d.Indices(99, 5, 3, 2, 2)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Set(x[0], x[1], inBytes, 4*offset) },
			Want:     func(x refs) refmath.Tensor { return refmath.Set(x[0], x[1], strides, offset) },
		},
	}
}

func rowCases() []opCase {
	back := func(ids refs) refmath.Tensor { return refmath.GetRowsBack(ids[0], ids[1], ids[2].Ne[1]) }
	cases := []opCase{
		{
			Name: "get_rows", Types: optest.WeightTypes(), Layouts: optest.ContiguousRows, Runs: 4,
			Operands: func(d *draw) []operand {
				rows, p, q := d.Size(9), d.Size(3), d.Size(2)
				return []operand{d.Normal(d.K(), rows, p, q), d.Indices(rows, d.Size(5), p, q)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			Name: "get_rows_i32", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand { return []operand{d.Indices(99, 5, 4), d.Indices(4, 7)} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.GetRows(x[0], x[1]) },
			Want:     func(x refs) refmath.Tensor { return refmath.GetRows(x[0], x[1]) },
		},
		{
			Name: "get_rows_back", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Want: back,
			Operands: func(d *draw) []operand {
				n, rows, k := d.Size(40), d.Size(9), d.Size(9)
				return []operand{d.Normal(n, k), d.Indices(rows, k), d.F32(n, rows)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.GetRowsBack(x[0], x[1], x[2]) },
		},
	}
	for i := range 4 {
		ids, from := []ggml.Type{ggml.I32, ggml.I64}[i/2], []ggml.Type{ggml.F32, ggml.F16}[i%2]
		cases = append(cases, opCase{
			Name: fmt.Sprintf("set_rows_%v_%v", ids, from), Types: append(storedTypes(), plainTypes...), Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				n, rows, p, q := d.RowLen(40), 3+d.Size(5), d.Size(3), d.Size(2)
				k := 1 + d.Int64N(3)
				to := refmath.New(k, p, q)
				for i := range to.Len() / int(k) {
					for j, row := range d.Perm(int(rows))[:k] {
						to.Data[i*int(k)+j] = float64(row)
					}
				}
				b := d.F32(n, k, p, q).As(from)
				b.Layout = optest.ContiguousRows[d.IntN(len(optest.ContiguousRows))]
				return []operand{d.Normal(n, rows, p, q), b, {Values: to, Type: ids}}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SetRows(x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.SetRows(x[0], x[1], x[2]) },
		})
	}
	return cases
}

// Write and Read are inverse through any view, and do not change memory around it.
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
		buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
		defer buffers.Close()

		before := make([]int32, x.NumElements())
		for i := range before {
			before[i] = int32(i)
		}
		require.NoError(t, ggml.Write(x, before))
		seen := need.Value(ggml.Read[int32](v))(t)
		reference := refmath.Permute(refmath.View(refmath.From(before, whole[:]...), [4]int64{part[0], part[1], part[2], 1},
			[3]int64{whole[0], whole[0] * whole[1], 0}, offset/4), axes[0], axes[1], axes[2], axes[3])
		require.Equal(t, reference.Int32(), seen)

		written := make([]int32, len(seen))
		for i := range written {
			written[i] = -int32(i) - 1
		}
		require.NoError(t, ggml.Write(v, written))
		seen2 := need.Value(ggml.Read[int32](v))(t)
		require.Equal(t, written, seen2)
		after := need.Value(ggml.Read[int32](x))(t)
		inside := map[int32]bool{}
		for _, i := range seen {
			inside[i] = true
		}
		for i, got := range after {
			require.Equal(t, !inside[int32(i)], got == int32(i), "element %d", i)
		}
		require.NoError(t, v.Memset(0))
		after = need.Value(ggml.Read[int32](x))(t)
		for i, got := range after {
			want := int32(i)
			if inside[want] {
				want = 0
			}
			require.Equal(t, want, got)
		}
	})
}

// A view made after its tensor was allocated has no buffer of its own.
func TestWriteToLateView(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 3)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	transposed := c.Transpose(x)
	require.NoError(t, transposed.SetFloat32s([]float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, optest.Err(transposed.WriteAt(make([]byte, 4), 4)))
	values := need.Value(ggml.Read[float32](x))(t)
	require.Equal(t, []float32{1, 0, 2, 5, 3, 6}, values)
}
