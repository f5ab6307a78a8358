package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/nativetest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

type customOp func(c *ggml.Context, f ggml.CustomFunc, threads int, x []*ggml.Tensor) *ggml.Tensor

var customForms = map[string]customOp{
	"map": func(c *ggml.Context, f ggml.CustomFunc, threads int, x []*ggml.Tensor) *ggml.Tensor {
		return c.MapCustom(f, threads, x[0], x[1:]...)
	},
	"map in place": func(c *ggml.Context, f ggml.CustomFunc, threads int, x []*ggml.Tensor) *ggml.Tensor {
		return c.MapCustomInPlace(f, threads, x[0], x[1:]...)
	},
	"custom": func(c *ggml.Context, f ggml.CustomFunc, threads int, x []*ggml.Tensor) *ggml.Tensor {
		return c.Custom(ggml.CustomOptions{Func: f, Threads: threads, Type: ggml.F32, Shape: x[0].Shape()}, x...)
	},
	"custom in place": func(c *ggml.Context, f ggml.CustomFunc, threads int, x []*ggml.Tensor) *ggml.Tensor {
		return c.CustomInPlace(f, threads, x[0], x[1:]...)
	},
}

// Each form passes the operands to its function in order, on any number of threads.
func TestCustom(t *testing.T) {
	for name, op := range customForms {
		for n := 1; n <= 9; n++ {
			if strings.HasPrefix(name, "map") && n > 3 {
				continue
			}
			for threads := range 3 {
				t.Run(fmt.Sprint(name, " ", n, " ", threads), func(t *testing.T) {
					x := optest.Leaves(t, n, 5, 7, 2, 3)
					c := ggml.NewContext()
					defer c.Close()
					y := op(c, sum, threads, x)
					g := c.NewGraph(y)
					require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
					require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g))
					got := need.Value(ggml.Read[float32](y))(t)
					require.Equal(t, [4]int64{5, 7, 2, 3}, [4]int64(y.Shape()))
					require.Equal(t, strings.HasSuffix(name, "place"), y.IsView())
					for i, v := range got {
						require.Equal(t, float32(n+n*i+100*n*(n-1)/2), v)
					}
				})
			}
		}
	}
}

// A function sees types, shapes and strides, also with no operands and for views.
func TestCustomTensor(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := optest.Leaves(t, 1, 3, 4)[0]
	rows := c.View(x, []int64{2, 2}, []int64{2 * 3 * 4}, 4) // the last two of every second row
	packed := c.Cast(optest.Leaves(t, 1, 32, 6)[0], ggml.Q8_0)
	var seen []ggml.CustomTensor
	look := func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		seen = append(src, dst)
		copy(ggml.CustomSlice[int32](dst), []int32{1, 2, 3})
		values := ggml.CustomRow[float32](src[0], 1)
		if values[0] != 7 || values[1] != 8 || len(values) != 2 {
			return fmt.Errorf("row 1 is %v", values)
		}
		if n := len(src[1].RowBytes(5)); n != 34 {
			return fmt.Errorf("a row of q8_0 has %d bytes", n)
		}
		return nil
	}
	y := c.Custom(ggml.CustomOptions{Func: look, Threads: 1, Type: ggml.I32, Shape: []int64{3}}, rows, packed)
	tally := func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		ggml.CustomSlice[int64](dst)[0] = int64(10*len(src) + w.Count)
		return nil
	}
	count := c.Custom(ggml.CustomOptions{Func: tally, Threads: 1, Type: ggml.I64, Shape: []int64{1}})
	g := c.NewGraph(y, count)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g))
	got := need.Value(ggml.Read[int32](y))(t)
	require.Equal(t, []int32{1, 2, 3}, got)
	number := need.Value(ggml.Read[int64](count))(t)
	require.Equal(t, []int64{1}, number)
	require.Equal(t, [4]int64{2, 2, 1, 1}, seen[0].Shape)
	require.Equal(t, int64(24), seen[0].Stride[1])
	require.Equal(t, ggml.Q8_0, seen[1].Type)
	require.Equal(t, int64(3), seen[2].NumElements())
}

// Changing type, shape and strides does not change access: other values would reach foreign memory.
func TestCustomTensorSetByHand(t *testing.T) {
	x := optest.Leaves(t, 1, 4, 2, 1, 1)
	c := ggml.NewContext()
	defer c.Close()
	for name, change := range map[string]func(x *ggml.CustomTensor){
		"shape":   func(x *ggml.CustomTensor) { x.Shape[1] = 1 << 20 },
		"row":     func(x *ggml.CustomTensor) { x.Shape[0] = 1 << 40 },
		"strides": func(x *ggml.CustomTensor) { x.Stride[1] = 1 << 30 },
		"type":    func(x *ggml.CustomTensor) { x.Type = ggml.I32 },
	} {
		var taken []any
		take := func(f func()) {
			defer func() { taken = append(taken, recover()) }()
			f()
		}
		y := c.MapCustom(func(_ ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
			change(&src[0])
			take(func() { src[0].RowBytes(1) })
			take(func() { ggml.CustomRow[float32](src[0], 1) })
			take(func() { ggml.CustomSlice[float32](src[0]) })
			return nil
		}, 1, x[0])
		g := c.NewGraph(y)
		require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
		require.NoError(t, optest.NewCPUBackend(t, 1).Compute(context.Background(), g))
		require.Len(t, taken, 3)
		for _, p := range taken {
			require.NotNil(t, p, name)
		}
	}
}

func TestWorkerShare(t *testing.T) {
	for n := range int64(20) {
		for count := 1; count < 9; count++ {
			var next, least, most int64
			least = math.MaxInt64
			for i := range count {
				from, to := ggml.Worker{Index: i, Count: count}.Share(n)
				require.Equal(t, next, from)
				next = to
				least, most = min(least, to-from), max(most, to-from)
			}
			require.Equal(t, n, next)
			require.LessOrEqual(t, most-least, int64(1))
		}
	}
}

// An error or a panic of a function is the error of the compute; later ops do not run, and the next
// compute works as usual.
func TestCustomFailure(t *testing.T) {
	bad := errors.New("bad luck")
	fail := true
	var after atomic.Int64
	failures := map[string]struct {
		f    func(y, x ggml.CustomTensor) error
		says string
	}{
		"error":     {func(y, x ggml.CustomTensor) error { return fmt.Errorf("row 3: %w", bad) }, "row 3: bad luck"},
		"panic":     {func(y, x ggml.CustomTensor) error { panic(bad) }, "the function panicked: bad luck"},
		"nil":       {func(y, x ggml.CustomTensor) error { var p *int; *p = 1; return nil }, "nil pointer dereference"},
		"index":     {func(y, x ggml.CustomTensor) error { _ = ggml.CustomSlice[float32](x)[x.NumElements()]; return nil }, "index out of range"},
		"row":       {func(y, x ggml.CustomTensor) error { ggml.CustomRow[float32](x, 7); return nil }, "row 7 of a tensor of 7 rows"},
		"type":      {func(y, x ggml.CustomTensor) error { ggml.CustomRow[int32](x, 0); return nil }, "the tensor has type f32, the slice holds i32"},
		"transpose": {func(y, x ggml.CustomTensor) error { ggml.CustomRow[float32](y, 0); return nil }, "not adjacent"},
	}
	for name, k := range failures {
		for _, threads := range []int{0, 1} {
			t.Run(fmt.Sprint(name, threads), func(t *testing.T) {
				x := optest.Leaves(t, 1, 5, 7)[0]
				c := ggml.NewContext()
				defer c.Close()
				y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
					if !fail || w.Index != w.Count-1 {
						return sum(w, dst, src...)
					}
					strided := dst
					strided.Stride[0] = 28
					return k.f(strided, src[0])
				}, threads, x)
				z := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
					after.Add(1)
					return sum(w, dst, src...)
				}, threads, c.Scale(y, 1))
				g := c.NewGraph(z)
				backend, sched := optest.NewCPUBackend(t, 2), optest.NewScheduler(t, optest.NewCPUBackend(t, 2))
				alloc := optest.NewGraphAllocator(t)
				for _, with := range []struct {
					alloc   func(*ggml.Graph) error
					compute func(context.Context, *ggml.Graph) error
				}{{alloc.Allocate, backend.Compute}, {sched.Allocate, sched.Compute}} {
					require.NoError(t, alloc.Allocate(c.NewGraph(x.Context().NewTensor(ggml.F32, 1))))
					require.NoError(t, with.alloc(g))
					for range 3 {
						fail = true
						after.Store(0)
						err := with.compute(context.Background(), g)
						var op *ggml.OpError
						require.ErrorAs(t, err, &op)
						require.Contains(t, err.Error(), k.says)
						require.Contains(t, err.Error(), "custom")
						require.Contains(t, op.Caller, "custom_test.go:")
						require.Zero(t, after.Load())
						var p *ggml.PanicError
						require.Equal(t, name != "error", errors.As(err, &p))
						if p != nil {
							require.Contains(t, string(p.Stack), "custom_test.go:")
						}
						if name == "error" || name == "panic" {
							require.ErrorIs(t, err, bad)
						}
						fail = false
						require.NoError(t, with.compute(context.Background(), g))
						got := need.Value(ggml.Read[float32](z))(t)
						require.Equal(t, float32(2), got[0])
						require.Equal(t, float32(36), got[34])
					}
				}
			})
		}
	}
}

// Invalid ops are errors when built.
func TestCustomMisuse(t *testing.T) {
	x := optest.Leaves(t, 12, 4)
	closed := ggml.NewContext()
	gone := closed.NewTensor(ggml.F32, 4)
	closed.Close()
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"map_custom(leaf f32[4]): the function is nil":                          func(c *ggml.Context) { c.MapCustom(nil, 0, x[0]) },
		"map_custom(leaf f32[4]): -1 threads: it takes 1 or more, or 0 for all": func(c *ggml.Context) { c.MapCustom(sum, -1, x[0]) },
		"map_custom(nil): operand 0 is nil":                                     func(c *ggml.Context) { c.MapCustom(sum, 0, nil) },
		"it takes 1 to 3 operands; Custom takes more":                           func(c *ggml.Context) { c.MapCustomInPlace(sum, 0, x[0], x[1:4]...) },
		"custom(result f32[4], leaf f32[4], nil): operand 1 is nil": func(c *ggml.Context) {
			c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.F32, Shape: []int64{4}}, x[0], nil)
		},
		"it has 10 operands; at most 9 fit": func(c *ggml.Context) {
			c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.F32, Shape: []int64{4}}, x[:10]...)
		},
		"it has 12 operands; at most 9 fit":                                            func(c *ggml.Context) { c.CustomInPlace(sum, 0, x[0], x[1:]...) },
		"custom(result q8_0[4]): ne0 is 4; a row of q8_0 is a multiple of 32 elements": func(c *ggml.Context) { c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.Q8_0, Shape: []int64{4}}) },
		"custom(result f32[]): a shape has 1 to 4 dimensions, this one has 0":          func(c *ggml.Context) { c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.F32, Shape: []int64{}}) },
		"custom_inplace((closed) f32[4]): the context of operand 0 is closed":          func(c *ggml.Context) { c.CustomInPlace(sum, 0, gone) },
	})
}

// A Go function has no backward.
func TestCustomBackward(t *testing.T) {
	for name, op := range customForms {
		c := ggml.NewContext()
		x := c.NewTensor(ggml.F32, 4).SetParam()
		y := op(c, sum, 0, []*ggml.Tensor{x})
		require.ErrorContains(t, c.NewTrainingGraph(c.Sum(y).SetLoss()).Backward(), "this op has no backward", name)
		c.Close()
	}
}

// Operands from as many contexts as an op has operands.
func TestCustomContexts(t *testing.T) {
	var x []*ggml.Tensor
	for range 12 {
		x = append(x, optest.Leaves(t, 1, 4)...)
	}
	c := ggml.NewContext()
	defer c.Close()
	y := c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.F32, Shape: []int64{4}}, x[:9]...)
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g))
	got := need.Value(ggml.Read[float32](y))(t)
	require.Equal(t, []float32{9, 18, 27, 36}, got)
	c.Custom(ggml.CustomOptions{Func: sum, Type: ggml.F32, Shape: []int64{4}}, x...)
	require.ErrorContains(t, c.Err(), "at most 9 fit")
}

// A function may build ops, including failing ones, and log.
func TestCustomUsesLibrary(t *testing.T) {
	log := captureLog(t)
	x := optest.Leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		inner := ggml.NewContext()
		defer inner.Close()
		b := inner.NewTensor(ggml.F32, 2, 3)
		inner.MulMat(b, b)
		inner.Add(b, inner.NewTensor(ggml.F32, 5, 3))
		if _, err := ggml.LoadBackend("no such file"); err == nil {
			return errors.New("there is such a file")
		}
		return inner.Err()
	}, 0, x)
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.ErrorContains(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g), "cannot be repeated")
	require.NotContains(t, log.String(), "panicked")
}

// Graphs with functions of one shared context run on several backends at once.
func TestCustomConcurrent(t *testing.T) {
	x := optest.Leaves(t, 2, 16, 8)
	var calls atomic.Int64
	var wg testutil.Goroutines
	for range 4 {
		backend, alloc := optest.NewCPUBackend(t, 2), optest.NewGraphAllocator(t)
		wg.Go(func() {
			for k := range 20 {
				c := ggml.NewContext()
				y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
					calls.Add(1)
					return sum(w, dst, src...)
				}, 0, x[0], x[1])
				g := c.NewGraph(y)
				if err := errors.Join(alloc.Allocate(g), backend.Compute(context.Background(), g)); err != nil {
					t.Error(k, err)
				}
				got, err := ggml.Read[float32](y)
				if err != nil || got[127] != 2+127+227 {
					t.Error(got, err)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(4*20*2), calls.Load())
}

// Closing the context during a compute lets the compute finish; then the function is released, as
// when the context it refers to is dropped.
func TestCustomLifetime(t *testing.T) {
	x := optest.Leaves(t, 1, 4)[0]
	backend, alloc := optest.NewCPUBackend(t, 2), optest.NewGraphAllocator(t)
	c := ggml.NewContext()
	var once sync.Once
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		once.Do(func() { c.Close() })
		time.Sleep(time.Millisecond)
		return sum(w, dst, src...)
	}, 0, x)
	g := c.NewGraph(c.MapCustom(sum, 0, y))
	require.NoError(t, alloc.Allocate(g))
	require.NoError(t, backend.Compute(context.Background(), g))
	require.ErrorIs(t, backend.Compute(context.Background(), g), ggml.ErrClosed)
	c.Close()

	captureLog(t)
	var freed atomic.Int64
	func() {
		dropped := ggml.NewContext()
		big := new([1 << 16]byte)
		runtime.AddCleanup(big, func(int) { freed.Add(1) }, 0)
		var self *ggml.Tensor
		self = dropped.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
			big[0]++
			if self.Context() != dropped {
				return errors.New("another context")
			}
			return sum(w, dst, src...)
		}, 1, x)
		g := dropped.NewGraph(self)
		require.NoError(t, alloc.Allocate(g))
		require.NoError(t, backend.Compute(context.Background(), g))
		other := ggml.NewContext()
		defer other.Close()
		require.NoError(t, alloc.Allocate(other.NewGraph(other.Neg(x)))) // releases the dropped one
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return freed.Load() == 1
	}, time.Minute, 5*time.Millisecond)
}

// A custom op runs on the CPU, whatever other backends a scheduler has.
func TestCustomOnlyCPU(t *testing.T) {
	for _, d := range allDevices(t) {
		if d.Type() == ggml.CPU {
			continue
		}
		x := optest.Leaves(t, 2, 4)
		c := ggml.NewContext()
		b := need.Value(d.NewBackend())(t)
		y := c.MapCustom(sum, 0, c.Add(x[0], x[1]))
		g := c.NewGraph(c.Neg(y))
		require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
		require.ErrorContains(t, b.Compute(context.Background(), g), "does not support this op")
		s := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 2))
		require.NoError(t, s.Allocate(g))
		require.NoError(t, s.Compute(context.Background(), g))
		require.Equal(t, ggml.CPU, optest.Found(s.TensorBackend(y)).Device().Type())
		s.Close()
		c.Close()
		b.Close()
	}
}

// An in-place op needs its operand in memory of this process: an operand on a device is refused, a
// result is computed here.
func TestCustomInPlaceOnDevice(t *testing.T) {
	d := remote(t, optest.StartRPCServer(t))
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	s, c := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 1)), ggml.NewContext()
	defer c.Close()
	far := placed(t, d, 4).SetName("far")
	require.NoError(t, ggml.Write(far, []float32{1, 2, 3, 4}))

	g := c.NewGraph(nativetest.Scale(c, far, 2))
	require.NoError(t, s.Allocate(g))
	require.ErrorContains(t, s.Compute(context.Background(), g), "the CPU would compute this in place, but it is in memory of another device; give the op a copy made with Dup")

	up := c.SetInPlace(c.Dup(far), c.Scale(c.View(far, []int64{2}, nil, 0), 10), [3]int64{16, 16, 16}, 8)
	y := nativetest.Scale(c, up, 0.5).SetOutput()
	require.NoError(t, c.Err())
	g = c.NewGraph(y)
	require.NoError(t, s.Allocate(g))
	require.NoError(t, s.Compute(context.Background(), g))
	got := need.Value(ggml.Read[float32](y))(t)
	require.InDeltaSlice(t, []float32{0.5, 1, 5, 10}, got, 1e-5)
}

func BenchmarkCustom(b *testing.B) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1)
	y := x
	const ops = 1000
	for range ops {
		y = c.MapCustom(func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return nil }, 1, y)
	}
	g := c.NewGraph(y)
	alloc, backend := optest.NewGraphAllocator(b), optest.NewCPUBackend(b, 1)
	require.NoError(b, alloc.Allocate(g))
	for b.Loop() {
		require.NoError(b, backend.Compute(context.Background(), g))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ops, "ns/call")
}
