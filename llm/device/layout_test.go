package device_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

func cpu(t *testing.T) *ggml.Device { return optest.CPU(t) }

// layouts returns layouts over several devices that transfer different tensors between them.
func layouts(t *testing.T) map[string]layout.Layout {
	one, two := remote(t), remote(t)
	return map[string]layout.Layout{
		"layers on two devices, the rest on the CPU": {Devices: []*ggml.Device{one, two}, Of: func(layer int, _ layout.Kind) int {
			if layer < 0 {
				return 2
			}
			return layer % 2
		}},
		"the CPU has the first layer": {Devices: []*ggml.Device{one, cpu(t)}, Of: func(layer int, _ layout.Kind) int {
			if layer == 0 {
				return 1
			}
			return 0
		}},
		"by kind": {Devices: []*ggml.Device{one}, Of: func(_ int, kind layout.Kind) int {
			if slices.Contains([]layout.Kind{layout.TokenEmbd, "ffn_up", "ffn_down", layout.KVCache}, kind) {
				return 1
			}
			return 0
		}},
	}
}

// requirePlaced checks that tensors of a weight are on the weight's device.
func requirePlaced(t *testing.T, e *device.Engine, w *arch.Weight, tensors ...*ggml.Tensor) {
	t.Helper()
	d := e.Devices()[e.Layout().Of(w.Layer, w.Kind)]
	for _, x := range tensors {
		on := need.Value(x.BufferType().Device())(t)
		require.Equal(t, d.Name(), on.Name(), "%v", x)
		require.Equal(t, d.BufferType().Name() == cpu(t).BufferType().Name(), x.BufferType().IsHost(), "%v", x)
	}
}

// A model on several devices has the same logits, losses and memory as on one.
func TestLayouts(t *testing.T) {
	need.Time(t, "trains in many layouts")
	m := llmtest.ArchModel(t, "gemma3", ggml.F32)
	one := newEngine(t, device.Options{OpSet: device.Stock})
	want := logits(t, m, one, trained(t, m).WithScale(1))
	wantLosses := losses(t, m, one)
	for name, l := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			on, e := loadOn(t, m, l), newEngine(t, device.Options{Layout: l})
			sizes := make(layout.Sizes, len(e.Devices()))
			for x := range on.Weights() {
				w := on.Architecture().Weight(x.Name())
				requirePlaced(t, e, w, x)
				sizes[l.Of(w.Layer, w.Kind)] += x.NumBytes()
			}
			require.Equal(t, sizes, on.Sizes())
			require.Equal(t, names(m), names(on), "the order of the file")
			a := trained(t, on)
			for _, p := range a.Pairs() {
				requirePlaced(t, e, on.Architecture().Weight(p.Base), p.A, p.B)
			}

			require.Less(t, refmath.NMSE(logits(t, on, e, a.WithScale(1)), want), 1e-8)
			require.Less(t, refmath.NMSE(losses(t, on, e), wantLosses), 1e-8)
		})
	}
}

// Training over several devices equals training on one, within the memory estimated for each.
func TestLayoutsTrain(t *testing.T) {
	need.Time(t, "trains many times")
	m := llmtest.ArchModel(t, "gemma3", ggml.F32)
	one := newEngine(t, device.Options{OpSet: device.Stock})
	single := newTrainer(t, m, one, train.CheckpointingOn)
	run(t, single)
	graphs := []lossgraph.Options{chunked, {Length: 24, Dropout: 0.2, NEFTune: 5}}
	var want []map[string][]float32
	for _, o := range graphs {
		_, grads := gradients(t, m, one, o, "blk.0.ffn_norm.weight")
		want = append(want, grads)
	}
	for name, l := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			on, e := loadOn(t, m, l), newEngine(t, device.Options{Layout: l})
			for i, o := range graphs {
				_, got := gradients(t, on, e, o, "blk.0.ffn_norm.weight")
				requireSameGradients(t, want[i], got, 1e-7) // with kernels, the CPU computes GELU without a table
			}
			tr := newTrainer(t, on, e, train.CheckpointingOn)
			estimate := need.Value(train.EstimateMemory(l, m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), withCopies(trainOptions(nil, train.CheckpointingOn), weightcache.All)))(t)
			run(t, tr)
			requireSameLosses(t, single.History, tr.History, 1e-5)
			requireEstimate(t, tr.Memory(), estimate.Optimizer.Plus(estimate.Copies).Plus(estimate.Step))
			for i, d := range e.Devices() {
				require.Positive(t, estimate.Step[i], d.Name())
			}
		})
	}
}

// run runs a few steps.
func run(t *testing.T, tr *train.Trainer) {
	t.Helper()
	for range 8 {
		_, err := tr.Step(t.Context())
		require.NoError(t, err)
	}
}

// losses returns the losses of a batch, and checks that the graph takes the measured memory on each device.
func losses(t *testing.T, m *model.Model, e *device.Engine) []float32 {
	t.Helper()
	g := need.Value(lossgraph.New(m, e, lossgraph.Options{Length: 24, Batch: 2, Adapters: trained(t, m).WithScale(1)}))(t)
	defer g.Close()
	sizes := need.Value(g.Measure())(t)
	batch := llmtest.NewBatch(m.Config().Vocab, 24)
	list := need.Value(g.Compute(context.Background(), batch))(t)
	require.Equal(t, sizes, g.Memory())
	for i, d := range e.Devices() {
		require.Positive(t, sizes[i], d.Name())
	}
	return list
}

// Weights are loaded from file to device in pieces: the process never holds a whole weight.
func TestLoadsWithoutCopies(t *testing.T) {
	need.Time(t, "loads large models")
	if rss.Now() == 0 {
		t.Skip("the system does not tell how much memory is resident")
	}
	c := benchmodel.Large()
	c.Layers = 12
	path := hollowModel(t, c, ggml.Q4_K)
	var most uint64
	before := rss.Now()
	on := need.Value(model.Load(path, model.LoadOptions{Layout: layout.On(remote(t)), Progress: func(int64, int64) { most = max(most, rss.Now()) }}))(t)
	defer on.Close()
	require.Greater(t, on.Sizes()[0], int64(100<<20))
	t.Logf("%d MiB on the device, %d MiB more here", on.Sizes()[0]>>20, int64(most-before)>>20)
	require.Less(t, int64(most)-int64(before), on.Sizes()[0]/4)
}

func names(m *model.Model) []string {
	var list []string
	for w := range m.Weights() {
		list = append(list, w.Name())
	}
	return list
}

func TestLayoutErrors(t *testing.T) {
	d := remote(t)
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	all := func(i int) func(int, layout.Kind) int { return func(int, layout.Kind) int { return i } }
	for _, c := range []struct {
		l    layout.Layout
		says string
	}{
		{layout.Layout{Devices: []*ggml.Device{d, nil}}, "device 1 of the layout is nil"},
		{layout.Layout{Devices: []*ggml.Device{{}}}, "device 0 of the layout is nil"},
		{layout.Layout{Devices: []*ggml.Device{d, d}}, "the layout has " + d.Name() + " twice; list each device once"},
		{layout.Layout{Devices: []*ggml.Device{cpu(t), d}}, "the CPU is not the last device of the layout; put it there, or leave it out"},
	} {
		_, err := device.New(device.Options{Layout: c.l})
		require.EqualError(t, err, c.says)
		_, err = model.Load(m.Path, model.LoadOptions{Layout: c.l})
		require.EqualError(t, err, c.says)
	}
	if blas, err := ggml.BLASDevice(); err == nil {
		_, err := device.New(device.Options{Layout: layout.On(blas)})
		require.EqualError(t, err, "BLAS assists the CPU and cannot hold weights; leave it out of the layout")
	}
	for i, devices := range map[int]string{-1: "CPU", 1: "CPU", 2: d.Name() + ", CPU"} {
		l := layout.Layout{Of: all(i)}
		if i == 2 {
			l.Devices = []*ggml.Device{d}
		}
		_, err := model.Load(m.Path, model.LoadOptions{Layout: l})
		require.EqualError(t, err, fmt.Sprintf("the layout puts token_embd on device %d, which it does not have; its devices, counted from 0, are %s", i, devices))
		_, err = infer.NewSession(m, infer.SessionOptions{Engine: newEngine(t, device.Options{Layout: l})})
		require.ErrorContains(t, err, fmt.Sprintf("on device %d, which it does not have; its devices", i))
	}
	beyond := layout.Layout{Of: func(layer int, kind layout.Kind) int { return layer + 1 }}
	_, err := model.Load(m.Path, model.LoadOptions{Layout: beyond})
	require.ErrorContains(t, err, " of layer 0 on device 1, which it does not have; its devices, counted from 0, are CPU")

	// The engine's layout is not the model's.
	mixed := layout.Layout{Devices: []*ggml.Device{d}, Of: func(layer int, _ layout.Kind) int { return min(layer+1, 1) }}
	on := loadOn(t, m, mixed)
	s := need.Value(infer.NewSession(on, infer.SessionOptions{}))(t)
	require.NoError(t, s.Close())
	_, err = infer.NewSession(on, infer.SessionOptions{Engine: newEngine(t, device.Options{Layout: layout.On(d)})})
	require.ErrorContains(t, err, "is in memory of CPU_Mapped, but the layout of the engine puts it on "+d.Name()+"; load the model with this layout, and make its adapters for that model")
}
