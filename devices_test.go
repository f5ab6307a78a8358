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
	"github.com/goggml/ggml/internal/refmath"
)

// A rig is several real devices: two RPC servers, BLAS where its plugin is, and
// the CPU, which is the last.
type rig struct {
	devices  []*ggml.Device
	backends []*ggml.Backend
}

func newRig(t testing.TB) *rig {
	r := &rig{devices: []*ggml.Device{remote(t, startServer(t)), remote(t, startServer(t))}}
	if d, err := ggml.BLASDevice(); err == nil {
		r.devices = append(r.devices, d)
	} else {
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
	}
	cpu, err := ggml.DeviceByType(ggml.CPU)
	require.NoError(t, err)
	r.devices = append(r.devices, cpu)
	for _, d := range r.devices {
		b, err := d.NewBackend()
		require.NoError(t, err)
		t.Cleanup(func() { b.Close() })
		if d.Description() == cpu.Description() || b.IsBLAS() {
			require.NoError(t, b.SetThreads(1))
		}
		r.backends = append(r.backends, b)
	}
	return r
}

// A tower is products with activations in between, of which each weight lies on
// a device of its own.
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
	const width, batch = 96, 40 // BLAS takes 32 and more
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
		h = refmath.MulMat(refmath.From(numbers(t, w), w.Shape()...), h)
		for i, v := range h.Data {
			h.Data[i] = v / (1 + math.Exp(-v))
		}
	}
	return h.Data
}

func near(t testing.TB, want []float64, got []float32, bound float64, message any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.LessOrEqual(t, math.Abs(float64(got[i])-w), bound*max(1, math.Abs(w)), "element %d: %v", i, message)
	}
}

// The scheduler computes across real devices what one would, wherever the
// weights are and whichever device a node is forced to.
func TestSchedulerAcrossDevices(t *testing.T) {
	rig := newRig(t)
	random := rng(7)
	for round := range 12 {
		var places []*ggml.Device
		for range 3 {
			places = append(places, rig.devices[random.IntN(len(rig.devices))])
		}
		n := newTower(t, random, places...)
		s, err := ggml.NewScheduler(ggml.SchedulerOptions{Parallel: round%3 == 2}, rig.backends...)
		require.NoError(t, err)
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
		require.NoError(t, s.Alloc(n.graph))
		for node, b := range forced {
			// Of backends with the same memory the first one computes.
			require.Equal(t, s.BufferType(b), s.BufferType(s.TensorBackend(node)), "%v", node)
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
			got, err := ggml.Read[float32](n.y)
			require.NoError(t, err)
			near(t, n.want(t, x), got, 1e-4, places)
		}
		require.NoError(t, s.Close())
	}
}

// Without force, each product is computed where its weight is.
func TestSchedulerFollowsWeights(t *testing.T) {
	rig := newRig(t)
	n := newTower(t, rng(8), rig.devices[0], rig.devices[1], rig.devices[0])
	for _, w := range n.weights {
		placedBuffers[w].SetUsage(ggml.UsageWeights)
	}
	s := scheduler(t, rig.backends...)
	require.Equal(t, rig.backends, s.Backends())
	require.NoError(t, s.Split(n.graph))
	for i, at := range []int{0, 1, 0} {
		require.Equal(t, rig.backends[at], s.TensorBackend(n.products[i]))
	}
	require.GreaterOrEqual(t, s.NumSplits(), 3)
	sizes, err := s.Measure(n.graph)
	require.NoError(t, err)
	require.Len(t, sizes, len(rig.backends))
	require.Positive(t, sizes[0])
	require.Positive(t, sizes[1])
	require.NoError(t, s.Alloc(n.graph))
	for i, b := range rig.backends {
		require.Equal(t, sizes[i], s.BufferSize(b), b.Name())
		require.NotEmpty(t, s.BufferType(b).Name())
	}
	require.Equal(t, 1, s.NumCopies())
	parallel, err := ggml.NewScheduler(ggml.SchedulerOptions{Parallel: true}, rig.backends...)
	require.NoError(t, err)
	defer parallel.Close()
	require.Greater(t, parallel.NumCopies(), 1)
}

// Data come unchanged from any device to any other, in both ways of copying.
func TestCopiesBetweenDevices(t *testing.T) {
	rig := newRig(t)
	random := rng(9)
	for i, from := range rig.devices {
		for j, to := range rig.devices {
			src, dst := placed(t, from, 33, 7), placed(t, to, 33, 7)
			values := refmath.Normal(random, 1, 33, 7).Float32()
			require.NoError(t, ggml.Write(src, values))
			require.NoError(t, ggml.CopyTensor(dst, src))
			got, err := ggml.Read[float32](dst)
			require.NoError(t, err)
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
	require.ErrorContains(t, rig.backends[1].WriteAsync(x, make([]byte, 16), 0), "to which backend "+rig.devices[1].Name()+" has no access")
	require.ErrorContains(t, ggml.CopyTensorAsync(rig.backends[0], rig.backends[0], x, placed(t, rig.devices[1], 4)), "has no access")
}

// An event of one device orders the work on it.
func TestEventsOfServers(t *testing.T) {
	d := remote(t, startServer(t))
	require.True(t, d.Properties().Events)
	b, err := d.NewBackend()
	require.NoError(t, err)
	defer b.Close()
	e, err := d.NewEvent()
	require.NoError(t, err)
	defer e.Close()
	x := placed(t, d, 1<<18)
	values := refmath.Normal(rng(3), 1, 1<<18).Float32()
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
	random := rng(11)
	cpu := rig.devices[len(rig.devices)-1]
	n := newTower(t, random, cpu, cpu)
	require.NoError(t, graphAllocator(t).Alloc(n.graph))
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
		near(t, want, numbers(t, nodes[len(nodes)-1]), 1e-4, b.Name())
		buffer.Close()
		copied.Context().Close()
		if i == len(rig.backends)-1 {
			continue
		}
		seen := 0
		require.NoError(t, ggml.CompareBackends(context.Background(), rig.backends[len(rig.backends)-1], b, n.graph, func(_ int, first, second *ggml.Tensor) error {
			seen++
			near(t, refmath.From(numbers(t, first)).Data, numbers(t, second), 1e-4, first)
			return nil
		}))
		require.Equal(t, n.graph.NumNodes(), seen)
	}
}

// A graph can be split again and again, by another scheduler too: the copies of
// operands that a scheduler makes are its own.
func TestGraphIsSplitAgain(t *testing.T) {
	rig := newRig(t)
	n := newTower(t, rng(21), rig.devices[0], rig.devices[1])
	schedulers := []*ggml.Scheduler{scheduler(t, rig.backends...), scheduler(t, rig.backends...)}
	for i := range 6 {
		s := schedulers[i%2]
		require.NoError(t, s.Reserve(n.graph))
		require.NoError(t, s.Split(n.graph))
		require.NoError(t, s.SetTensorBackend(n.activations[0], rig.backends[i%2]))
		require.NoError(t, s.Alloc(n.graph))
		for range 2 {
			x := refmath.Normal(rng(uint64(i)), 1, n.x.Shape()...)
			require.NoError(t, ggml.Write(n.x, x.Float32()))
			require.NoError(t, s.Compute(context.Background(), n.graph))
			near(t, n.want(t, x), numbers(t, n.y), 1e-4, i)
		}
		require.True(t, n.products[1].Sources()[1].Is(n.activations[0]))
		require.NoError(t, s.Reset())
	}
}
