package ggml_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A tower is a sequence of products with activations in between. Each weight lies on its own
// device.
type tower struct {
	ctx         *ggml.Context
	x, y        *ggml.Tensor
	weights     []*ggml.Tensor
	products    []*ggml.Tensor
	activations []*ggml.Tensor
	graph       *ggml.Graph
}

// newTower places a weight on each of the devices.
func newTower(t testing.TB, r *rand.Rand, places ...*ggml.Device) *tower {
	const width, batch = 96, 40 // BLAS computes sizes from 32 on
	n := &tower{ctx: ggml.NewContext()}
	t.Cleanup(func() { n.ctx.Close() })
	n.x = n.ctx.NewTensor(ggml.F32, width, batch).SetInput().SetName("x")
	n.y = n.x
	for i, d := range places {
		w := placed(t, d, width, width).SetName(fmt.Sprintf("w%d", i))
		require.NoError(t, ggml.Write(w, refmath.Normal(r, 0.1, width, width).Float32()))
		product := n.ctx.MulMat(w, n.y).SetOutput()
		n.y = n.ctx.Silu(product).SetOutput()
		n.weights = append(n.weights, w)
		n.products = append(n.products, product)
		n.activations = append(n.activations, n.y)
	}
	n.graph = n.ctx.NewGraph(n.y)
	require.NoError(t, n.ctx.Err())
	return n
}

// want computes in float64.
func (n *tower) want(t testing.TB, x refmath.Tensor) []float64 {
	h := x
	for _, w := range n.weights {
		h = refmath.MulMat(refmath.From(optest.Values(t, w), w.Shape()...), h)
		for i, v := range h.Data {
			h.Data[i] = v / (1 + math.Exp(-v))
		}
	}
	return h.Data
}

// The scheduler computes the same across real devices as on one, wherever the weights are and
// whichever device a node is assigned to.
func TestSchedulerAcrossDevices(t *testing.T) {
	rig := newRig(t)
	random := optest.RNG(7)
	for round := range 12 {
		var places []*ggml.Device
		for range 3 {
			places = append(places, rig.devices[random.IntN(len(rig.devices))])
		}
		n := newTower(t, random, places...)
		s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{Parallel: round%3 == 2}, rig.backends...))(t)
		forced := map[*ggml.Tensor]*ggml.Backend{}
		for _, node := range slices.Concat(n.products, n.activations) {
			b := rig.backends[random.IntN(len(rig.backends))]
			if random.IntN(2) == 0 {
				continue
			}
			if !b.Device().SupportsOp(node) { // BLAS has no activations
				require.ErrorContains(t, s.SetTensorBackend(node, b), "does not support this op")
				continue
			}
			forced[node] = b
			require.NoError(t, s.SetTensorBackend(node, b))
		}
		require.NoError(t, s.Allocate(n.graph))
		for node, b := range forced {
			// If several backends share memory, the first one computes.
			require.Equal(t, optest.Found(s.BufferType(b)), optest.Found(s.BufferType(optest.Found(s.TensorBackend(node)))), "%v", node)
		}
		for range 2 {
			x := refmath.Normal(random, 1, n.x.Shape()...)
			require.NoError(t, ggml.Write(n.x, x.Float32()))
			if round%2 == 0 {
				require.NoError(t, s.Compute(context.Background(), n.graph))
			} else {
				require.NoError(t, s.ComputeAsync(context.Background(), n.graph))
				require.NoError(t, s.Synchronize())
			}
			got := need.Value(ggml.Read[float32](n.y))(t)
			requireNear(t, n.want(t, x), got, 1e-4, places)
		}
		require.NoError(t, s.Close())
	}
}

// Without assignments, each product is computed where its weight is. Readers of a view of weights
// are computed where the weights lie, also beside operands on other devices; and Measure agrees.
func TestSchedulerFollowsViewsOfWeights(t *testing.T) {
	rig := newRig(t)
	c := ggml.NewContext()
	defer c.Close()
	var weights []*ggml.Tensor
	for i := range 2 {
		w := c.NewTensor(ggml.F32, 8, 8)
		b := need.Value(rig.devices[i].BufferType().Allocate(w))(t)
		defer b.Close()
		b.SetUsage(ggml.UsageWeights)
		require.NoError(t, w.Fill(1))
		weights = append(weights, w)
	}
	x := c.MulMat(weights[0], c.NewTensor(ggml.F32, 8, 3).SetInput())
	turned := c.Cont(c.Transpose(weights[1]))
	y := c.MulMat(turned, x).SetOutput()
	g := c.NewGraph(y)
	s := optest.NewScheduler(t, rig.backends...)
	sizes := need.Value(s.Measure(g))(t)
	require.NoError(t, s.Allocate(g))
	require.Equal(t, rig.backends[0], optest.Found(s.TensorBackend(x)))
	require.Equal(t, rig.backends[1], optest.Found(s.TensorBackend(turned)))
	for i, b := range rig.backends {
		require.Equal(t, sizes[i], s.BufferSize(b), b.Name())
	}
}

func TestSchedulerFollowsWeights(t *testing.T) {
	rig := newRig(t)
	n := newTower(t, optest.RNG(8), rig.devices[0], rig.devices[1], rig.devices[0])
	for _, w := range n.weights {
		placedBuffers[w].SetUsage(ggml.UsageWeights)
	}
	s := optest.NewScheduler(t, rig.backends...)
	require.Equal(t, rig.backends, s.Backends())
	require.NoError(t, s.SplitGraph(n.graph))
	for i, at := range []int{0, 1, 0} {
		require.Equal(t, rig.backends[at], optest.Found(s.TensorBackend(n.products[i])))
	}
	require.GreaterOrEqual(t, s.NumGraphSplits(), 3)
	sizes := need.Value(s.Measure(n.graph))(t)
	require.Len(t, sizes, len(rig.backends))
	require.Positive(t, sizes[0])
	require.Positive(t, sizes[1])
	require.NoError(t, s.Allocate(n.graph))
	for i, b := range rig.backends {
		require.Equal(t, sizes[i], s.BufferSize(b), b.Name())
		require.NotEmpty(t, optest.Found(s.BufferType(b)).Name())
	}
	require.Equal(t, 1, s.NumCopies())
	parallel := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{Parallel: true}, rig.backends...))(t)
	defer parallel.Close()
	require.Greater(t, parallel.NumCopies(), 1)
}

// Data is unchanged when copied from any device to any other, synchronously and asynchronously.
func TestCopiesBetweenDevices(t *testing.T) {
	rig := newRig(t)
	random := optest.RNG(9)
	for i, from := range rig.devices {
		for j, to := range rig.devices {
			src, dst := placed(t, from, 33, 7), placed(t, to, 33, 7)
			values := refmath.Normal(random, 1, 33, 7).Float32()
			require.NoError(t, ggml.Write(src, values))
			require.NoError(t, ggml.CopyTensor(dst, src))
			got := need.Value(ggml.Read[float32](dst))(t)
			require.Equal(t, values, got, "%s to %s", from.Name(), to.Name())
			slices.Reverse(values)
			require.NoError(t, rig.backends[i].WriteAsync(src, bytesOf(values), 0))
			require.NoError(t, ggml.CopyTensorAsync(rig.backends[i], rig.backends[j], dst, src))
			require.NoError(t, rig.backends[i].Synchronize())
			require.NoError(t, rig.backends[j].Synchronize())
			got = make([]float32, len(values))
			require.NoError(t, rig.backends[j].ReadAsync(dst, bytesOf(got), 0))
			require.NoError(t, rig.backends[j].Synchronize())
			require.Equal(t, values, got, "%s to %s", from.Name(), to.Name())
			closePlaced(src)
			closePlaced(dst)
		}
	}
	x := placed(t, rig.devices[0], 4)
	require.ErrorContains(t, rig.backends[1].WriteAsync(x, make([]byte, 16), 0), "which backend "+rig.devices[1].Name()+" cannot access")
	require.ErrorContains(t, ggml.CopyTensorAsync(rig.backends[0], rig.backends[0], x, placed(t, rig.devices[1], 4)), "cannot access")
}

// An event of one device orders the work on it.
func TestEventsOfServers(t *testing.T) {
	d := remote(t, optest.StartRPCServer(t))
	require.True(t, d.Properties().Events)
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	e := need.Value(d.NewEvent())(t)
	defer e.Close()
	x := placed(t, d, 1<<18)
	values := refmath.Normal(optest.RNG(3), 1, 1<<18).Float32()
	got := make([]float32, len(values))
	for range 4 {
		clear(got)
		require.NoError(t, b.WriteAsync(x, bytesOf(values), 0))
		require.NoError(t, b.ReadAsync(x, bytesOf(got), 0))
		require.NoError(t, e.Record(b))
		require.NoError(t, e.Wait(b))
		require.NoError(t, e.Synchronize())
		require.Equal(t, values, got)
		require.NoError(t, b.Synchronize())
		values[0]++
	}
}

// A copy of a graph on each device gives the same results, node by node.
func TestGraphsOnOtherDevices(t *testing.T) {
	rig := newRig(t)
	random := optest.RNG(11)
	cpu := rig.devices[len(rig.devices)-1]
	n := newTower(t, random, cpu, cpu)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(n.graph))
	x := refmath.Normal(random, 1, n.x.Shape()...)
	want := n.want(t, x)
	for i, b := range rig.backends {
		if b.IsBLAS() {
			continue // it has no activations
		}
		require.NoError(t, ggml.Write(n.x, x.Float32())) // a computation may have reused its memory
		copied, buffer, err := n.graph.CopyTo(b)
		require.NoError(t, err)
		require.NoError(t, b.Compute(context.Background(), copied))
		nodes := slices.Collect(copied.Nodes())
		requireNear(t, want, optest.Values(t, nodes[len(nodes)-1]), 1e-4, b.Name())
		buffer.Close()
		copied.Context().Close()
		if i == len(rig.backends)-1 {
			continue
		}
		seen := 0
		near := func(_ int, first, second *ggml.Tensor) error {
			seen++
			requireNear(t, refmath.From(optest.Values(t, first)).Data, optest.Values(t, second), 1e-4, first)
			return nil
		}
		require.NoError(t, n.graph.CompareBackends(context.Background(), ggml.CompareOptions{First: rig.backends[len(rig.backends)-1], Second: b, Compare: near}))
		require.Equal(t, n.graph.NumNodes(), seen)
	}
}

// A graph can be split repeatedly, also by another scheduler: each scheduler has its own copies of
// operands.
func TestGraphIsSplitAgain(t *testing.T) {
	rig := newRig(t)
	n := newTower(t, optest.RNG(21), rig.devices[0], rig.devices[1])
	schedulers := []*ggml.Scheduler{optest.NewScheduler(t, rig.backends...), optest.NewScheduler(t, rig.backends...)}
	for i := range 6 {
		s := schedulers[i%2]
		require.NoError(t, s.Reserve(n.graph))
		require.NoError(t, s.SplitGraph(n.graph))
		require.NoError(t, s.SetTensorBackend(n.activations[0], rig.backends[i%2]))
		require.NoError(t, s.Allocate(n.graph))
		for range 2 {
			x := refmath.Normal(optest.RNG(uint64(i)), 1, n.x.Shape()...)
			require.NoError(t, ggml.Write(n.x, x.Float32()))
			require.NoError(t, s.Compute(context.Background(), n.graph))
			requireNear(t, n.want(t, x), optest.Values(t, n.y), 1e-4, i)
		}
		require.True(t, n.products[1].Sources()[1].Is(n.activations[0]))
		require.NoError(t, s.Reset())
	}
}

// An op that changes a tensor in place runs where that tensor is computed, whatever else it reads:
// another device could not access its memory.
func TestInPlaceAcrossDevices(t *testing.T) {
	rig := newRig(t)
	random := optest.RNG(12)
	const n = 96
	for _, from := range rig.devices {
		for _, to := range rig.devices {
			if from.Type() == ggml.Accelerator || to.Type() == ggml.Accelerator {
				continue // BLAS computes in the CPU's memory
			}
			place := func(d *ggml.Device, values refmath.Tensor) *ggml.Tensor {
				w := placed(t, d, values.Ne[:]...)
				placedBuffers[w].SetUsage(ggml.UsageWeights)
				require.NoError(t, ggml.Write(w, values.Float32()))
				return w
			}
			w, b, x := refmath.Normal(random, 0.1, n, n), refmath.Normal(random, 1, n), refmath.Normal(random, 1, n, 3)
			far, near := place(from, w), place(to, b)
			c := ggml.NewContext()
			in := c.NewTensor(ggml.F32, n, 3).SetInput()
			y := c.MulMat(far, in)
			y = c.MulInPlace(c.AddInPlace(y, near), near)
			g := c.NewGraph(y.SetOutput())
			s := optest.NewScheduler(t, rig.backends...)
			want := refmath.MulMat(w, x)
			for i := range want.Data {
				want.Data[i] = (want.Data[i] + b.Data[i%n]) * b.Data[i%n]
			}
			sizes := need.Value(s.Measure(g))(t)
			require.NoError(t, s.Allocate(g))
			for i, b := range rig.backends {
				require.Equal(t, sizes[i], s.BufferSize(b), b.Name())
			}
			require.NoError(t, ggml.Write(in, x.Float32()))
			require.NoError(t, s.Compute(context.Background(), g))
			requireNear(t, want.Data, optest.Values(t, y), 1e-4, from.Name()+" to "+to.Name())
			c.Close()
			closePlaced(far)
			closePlaced(near)
		}
	}
}
