package ggml_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/nativetest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestNativeOp(t *testing.T) {
	for _, threads := range []int{1, 2, 3} {
		backend := optest.NewCPUBackend(t, threads)
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, 3, 5)
		y := nativetest.SumSquares(c, nativetest.Scale(c, x, 2))
		g := c.NewGraph(y)
		buffers := need.Value(c.Allocate(backend.BufferType()))(t)
		defer buffers.Close()
		var values, want []float32
		for i := range 5 {
			v := []float32{float32(i), float32(-i), 1.5}
			values = append(values, v...)
			want = append(want, 4*(2*v[0]*v[0]+2.25))
		}
		require.NoError(t, ggml.Write(x, values))
		require.NoError(t, backend.Compute(context.Background(), g))
		got := need.Value(ggml.Read[float32](y))(t)
		require.Equal(t, want, got)
	}
}

func TestNativeOpHasItsName(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3, 5)
	y := nativetest.SumSquares(c, nativetest.Scale(c, x, 2))
	require.Equal(t, "sum_squares_of_rows", y.Op())
	require.Equal(t, "scale_by_param", y.Sources()[0].Op())
	require.Equal(t, "sum_squares_of_rows() f32[1, 5]", y.String())

	g := c.NewGraph(y)
	summary := g.Summary()
	require.Equal(t, []ggml.OpSummary{
		{Op: "sum_squares_of_rows", Count: 1, FLOPs: 30},
		{Op: "scale_by_param", Count: 1, FLOPs: 15},
	}, summary.Ops)
	var dot strings.Builder
	require.NoError(t, g.WriteDOT(&dot))
	require.Contains(t, dot.String(), "sum_squares_of_rows")

	backend := optest.NewCPUBackend(t, 1)
	scheduler := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, backend))(t)
	defer scheduler.Close()
	require.NoError(t, scheduler.Allocate(g))
	profile := need.Value(scheduler.Profile(context.Background(), g))(t)
	require.Equal(t, []string{"scale_by_param", "sum_squares_of_rows"}, []string{profile[0].Op, profile[1].Op})
	copied := need.Value(g.Clone(c, false))(t)
	require.Equal(t, summary.Ops, copied.Summary().Ops)
}

func TestNativeOpErrors(t *testing.T) {
	op := &ggml.NativeOp{Name: "nothing", Func: nativetest.Function()}
	build := func(f func(b *ggml.OpBuilder, x *ggml.Tensor) *ggml.Tensor) func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		return func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			return c.BuildOp("nothing", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor { return f(b, x) })
		}
	}
	native := func(op *ggml.NativeOp, params int, shape ...int64) func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		return build(func(b *ggml.OpBuilder, x *ggml.Tensor) *ggml.Tensor {
			return b.Native(op, make([]byte, params), ggml.F32, shape...)
		})
	}
	for name, test := range map[string]struct {
		build func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor
		err   string
	}{
		"operand of another type": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			return nativetest.SumSquares(c, c.Cast(x, ggml.F16))
		}, "sum_squares_of_rows(cpy() f16[4, 3]): x has type f16; it must have f32"},
		"operand with gaps": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			return nativetest.Scale(c, c.Transpose(x), 2)
		}, "x must be contiguous; call Cont"},
		"nil operand": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor { return nativetest.SumSquares(c, nil) }, "operand 0 is nil"},
		"nil op":      {native(nil, 0, 1), "the NativeOp is nil"},
		"no function": {native(&ggml.NativeOp{Name: "none"}, 0, 1), "the C function of none is nil"},
		"no name":     {native(&ggml.NativeOp{Func: nativetest.Function()}, 0, 1), "the NativeOp has no name"},
		"function of another op": {native(&ggml.NativeOp{Name: "thief", Func: nativetest.Function()}, 0, 1),
			"thief has the same C function as another NativeOp, nothing; each needs its own"},
		"too many parameters": {native(op, ggml.MaxNativeParams+1, 1), "there are 29 bytes of parameters; at most 28 fit"},
		"shape of nothing":    {native(op, 0, 0), "ne0 is 0; it must be at least 1"},
		"five dimensions":     {native(op, 0, 1, 1, 1, 1, 1), "a shape has 1 to 4 dimensions, this one has 5"},
		"no tensor made": {build(func(b *ggml.OpBuilder, x *ggml.Tensor) *ggml.Tensor { return x }),
			"the function that builds it made no tensor"},
		"no builder": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			return c.BuildOp("nothing", []*ggml.Tensor{x}, nil)
		},
			"the function that builds it is nil"},
		"in place without an operand": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			return c.BuildOp("nothing", nil, func(b *ggml.OpBuilder) *ggml.Tensor { return b.NativeInPlace(op, nil) })
		}, "an op in place needs an operand"},
		"in place on shared elements": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			rows := c.View(x, []int64{4, 2}, []int64{8}, 0) // overlapping rows
			return c.BuildOp("nothing", []*ggml.Tensor{rows}, func(b *ggml.OpBuilder) *ggml.Tensor { return b.NativeInPlace(op, nil) })
		}, "elements of the first operand share memory"},
		"too many operands": {func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
			operands := make([]*ggml.Tensor, ggml.MaxOperands+1)
			for i := range operands {
				operands[i] = x
			}
			return c.BuildOp("nothing", operands, func(b *ggml.OpBuilder) *ggml.Tensor { return b.Native(op, nil, ggml.F32, 1) })
		}, "it has 10 operands; at most 9 fit"},
	} {
		t.Run(name, func(t *testing.T) {
			c := ggml.NewContext()
			defer c.Close()
			x := c.NewTensor(ggml.F32, 4, 3)
			require.NoError(t, build(func(b *ggml.OpBuilder, x *ggml.Tensor) *ggml.Tensor {
				return b.Native(op, nil, ggml.F32, 1)
			})(c, x).Context().Err())
			test.build(c, x)
			require.ErrorContains(t, c.Err(), test.err)
		})
	}
}

// The error of another package's op names the line that calls the op, not a line inside it.
func TestNativeOpNamesItsCaller(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F16, 4, 3)
	_, _, line, _ := runtime.Caller(0)
	nativetest.SumSquares(c, x)
	var failed *ggml.OpError
	require.ErrorAs(t, c.Err(), &failed)
	require.Equal(t, "op_native_test.go:"+strconv.Itoa(line+1), failed.Caller)
}

func TestNativeOpAfterFailure(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	failed := c.Add(c.NewTensor(ggml.F32, 4), c.NewTensor(ggml.F32, 3))
	err := c.Err()
	require.Error(t, err)
	c.BuildOp("never", []*ggml.Tensor{failed}, func(b *ggml.OpBuilder) *ggml.Tensor {
		t.Error("a builder was called for an operand that stands for a failure")
		return nil
	})
	require.Equal(t, err, c.Err())
}

// A builder that panics, or is used after its end, leaves the context usable.
func TestNativeOpBuilderEnds(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4, 3)
	var kept *ggml.OpBuilder
	y := c.BuildOp("composed", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		kept = b
		return b.Compose(func() *ggml.Tensor { return c.Neg(x) })
	})
	require.Equal(t, "neg", y.Op())
	require.False(t, kept.OK())
	kept.Require(false, "too late")
	require.Same(t, y, kept.Native(nil, nil, ggml.F32, 1))
	require.NoError(t, c.Err())

	require.PanicsWithValue(t, "broken", func() {
		c.BuildOp("panics", []*ggml.Tensor{x}, func(*ggml.OpBuilder) *ggml.Tensor { panic("broken") })
	})
	require.ErrorContains(t, c.Err(), "panics")
}

func TestRegistrySymbol(t *testing.T) {
	registry := need.Value(ggml.CPURegistry())(t)
	require.NotNil(t, registry.Symbol("ggml_backend_cpu_init"))
	require.NotNil(t, registry.Symbol("ggml_backend_set_n_threads"))
	require.Equal(t, unsafe.Pointer(nil), registry.Symbol("no such function"))
	require.Equal(t, unsafe.Pointer(nil), (*ggml.Registry)(nil).Symbol("ggml_backend_cpu_init"))
}

func TestScratchMemoryIsReported(t *testing.T) {
	compute := func() int64 {
		report := need.Value(ggml.MemoryReport())(t)
		for _, m := range report {
			if m.Device.Type() == ggml.CPU {
				return m.Compute
			}
		}
		return math.MinInt64
	}
	before, bytes := compute(), int64(0)
	ggml.RegisterScratchMemory(func() int64 { return bytes })
	bytes = 12345
	require.Equal(t, before+bytes, compute())
	bytes = 0
}
