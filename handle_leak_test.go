package ggml_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

var cycleCount = flag.Int("cycles", 5000, "how often TestCycles makes, uses and closes each kind of object")

// A cycler makes, uses and closes an object of each kind.
type cycler struct {
	t       *testing.T
	backend *ggml.Backend
	far     *ggml.Backend // has events, unlike the CPU
	file    []byte
	buffer  *ggml.Buffer
	plain   *ggml.Graph
	network *regressor
}

func newCycler(t *testing.T) *cycler {
	y := &cycler{t: t, backend: optest.NewCPUBackend(t, 1), far: need.Value(remote(t, optest.StartRPCServer(t)).NewBackend())(t)}
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, g.Set("a.key", "value"))
	require.NoError(t, g.AddTensor(optest.Leaves(t, 1, 8)[0].SetName("w")))
	var file bytes.Buffer
	_, err := g.WriteTo(&file)
	require.NoError(t, err)
	y.file = file.Bytes()
	y.buffer = need.Value(ggml.CPUBufferType().NewBuffer(64))(t)
	t.Cleanup(func() { y.far.Close() })
	t.Cleanup(func() { y.buffer.Close() })
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	y.plain = c.NewGraph(c.Neg(optest.Leaves(t, 1, 4)[0]))
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(y.plain))
	y.network = newRegressor(t, newRegression(8), 4, 1)
	return y
}

func (y *cycler) compute(b *ggml.Backend) {
	require.NoError(y.t, b.Compute(context.Background(), y.plain))
}

// cycles maps the kinds of [ggml.OpenObjects] to functions.
var cycles = map[string]func(y *cycler){
	"context": func(y *cycler) {
		leaves, c := ggml.NewContext(), ggml.NewContext()
		x := leaves.NewTensor(ggml.F32, 64).SetName("x").SetParam()
		loss := c.Sum(c.Sqr(x)).SetLoss()
		g := c.NewTrainingGraph(loss)
		require.NoError(y.t, g.Backward())
		buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(y.t)
		require.NoError(y.t, x.Memset(0))
		a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(y.t)
		require.NoError(y.t, a.Allocate(g))
		require.NoError(y.t, g.Reset())
		require.NoError(y.t, y.backend.Compute(context.Background(), g))
		_, err := ggml.Read[float32](loss)
		require.NoError(y.t, err)
		c.Add(loss, nil)
		require.Error(y.t, c.Err())
		a.Close()
		buffers.Close()
		c.Close()
		leaves.Close()
	},
	"buffer": func(y *cycler) {
		b := need.Value(y.backend.NewBuffer(64))(y.t)
		c := ggml.NewContext()
		for _, memory := range []*ggml.Buffer{b, y.buffer} { // the latter outlives the contexts it serves
			a := need.Value(ggml.NewTensorAllocator(memory))(y.t)
			require.NoError(y.t, a.Allocate(c.NewTensor(ggml.F32, 4)))
		}
		b.Close()
		c.Close()
	},
	"backend": func(y *cycler) {
		b := need.Value(ggml.NewCPUBackend(1))(y.t)
		y.compute(b)
		b.Close()
	},
	"event": func(y *cycler) {
		e := need.Value(y.far.Device().NewEvent())(y.t)
		require.NoError(y.t, e.Record(y.far))
		require.NoError(y.t, e.Synchronize())
		e.Close()
	},
	"GGUF": func(y *cycler) {
		g := need.Value(ggml.ReadGGUF(bytes.NewReader(y.file), int64(len(y.file))))(y.t)
		c := ggml.NewContext()
		weights := need.Value(g.Load(c, y.backend.Device(), ggml.LoadOptions{}))(y.t)
		require.NoError(y.t, g.Set("another", []int32{1, 2, 3}))
		weights.Close()
		c.Close()
		g.Close()
	},
	"graph plan": func(y *cycler) {
		p := need.Value(y.backend.NewPlan(y.plain))(y.t)
		require.NoError(y.t, p.Compute(context.Background()))
		p.Close()
	},
	"graph allocator": func(y *cycler) {
		a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(y.t)
		c := ggml.NewContext()
		require.NoError(y.t, a.Allocate(c.NewGraph(c.Sqr(c.NewTensor(ggml.F32, 64).SetInput()))))
		a.Close()
		c.Close()
	},
	"scheduler": func(y *cycler) {
		s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 16}, y.backend))(y.t)
		c := ggml.NewContext()
		g := c.NewGraph(c.Sqr(c.NewTensor(ggml.F32, 64).SetInput()))
		require.NoError(y.t, s.Allocate(g))
		require.NoError(y.t, s.Compute(context.Background(), g))
		s.Close()
		c.Close()
	},
	"thread pool": func(y *cycler) {
		p := need.Value(ggml.NewThreadPool(ggml.ThreadPoolParams{Threads: 2}))(y.t)
		require.NoError(y.t, y.backend.SetThreadPool(p))
		y.compute(y.backend)
		require.NoError(y.t, y.backend.SetThreadPool(nil))
		p.Close()
	},
	"dataset": func(y *cycler) {
		d := need.Value(ggml.NewDataset(ggml.DatasetOptions{Samples: 4, SampleSize: 2, LabelSize: 1}))(y.t)
		require.NoError(y.t, d.Data().Memset(1))
		d.Close()
	},
	"optimizer": func(y *cycler) { // with its graphs
		c := ggml.NewContext()
		o := need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{
			Loss: ggml.LossMeanSquaredError, Inputs: y.network.x, Outputs: y.network.outputs(c, y.network.x),
		}, y.network.backend))(y.t)
		evaluate(y.t, y.network, o, true, 0, nil)
		o.Close()
		c.Close()
	},
	"optimizer result": func(y *cycler) {
		r := need.Value(ggml.NewOptResult())(y.t)
		require.NoError(y.t, r.Reset())
		r.Close()
	},
}

// Memory does not grow over many cycles of making and closing objects.
func TestCycles(t *testing.T) {
	need.Time(t, "makes thousands of objects")
	y := newCycler(t)
	n := *cycleCount
	for kind, cycle := range cycles {
		t.Run(kind, func(t *testing.T) {
			y.t = t
			run := func(times int) int64 {
				for range times {
					cycle(y)
				}
				debug.FreeOSMemory()
				return residentBytes(t)
			}
			if raceDetector || residentBytes(t) == 0 { // the race detector's memory grows
				run(n / 10)
				return
			}
			// Heaps vary, and sometimes grow in a step; a leak grows each time.
			before, grown := run(n/2), int64(0)
			for range 3 {
				after := run(n)
				grown = after - before
				t.Logf("%d cycles: %+d KiB of %d", n, grown>>10, before>>10)
				if before = after; grown < 6<<20 {
					break
				}
			}
			require.Less(t, grown, int64(6<<20))
		})
	}
}

// Every kind of object has a cycle.
func TestCycleOfEachKind(t *testing.T) {
	files := need.Value(filepath.Glob("*.go"))(t)
	made := regexp.MustCompile(`(?:newHandle|contextFor)\("([^"]+)"`)
	seen := 0
	for _, file := range files {
		text := need.Value(os.ReadFile(file))(t)
		for _, m := range made.FindAllSubmatch(text, -1) {
			kind := string(m[1])
			seen++
			if kind != "optimizer graph" { // an optimizer makes and closes it
				require.Contains(t, cycles, kind)
			}
		}
	}
	require.GreaterOrEqual(t, seen, len(cycles))
}
