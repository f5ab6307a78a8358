package device_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
	"github.com/goggml/ggml/llm/weightcache"
)

// remote is a device with its own memory that is available everywhere, and computes by ggml's ops: the CPU behind an RPC
// server without kernels.
func remote(t testing.TB) *ggml.Device {
	t.Helper()
	return remoteOf(t, optest.ServerOptions{Plain: true})
}

// remoteOf is the CPU behind a server with these options.
func remoteOf(t testing.TB, o optest.ServerOptions) *ggml.Device {
	t.Helper()
	r, err := ggml.AddRPCServer(optest.StartRPCServerWith(t, o).Endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	return r.Devices()[0]
}

func loadOn(t testing.TB, m *model.Model, l layout.Layout) *model.Model {
	t.Helper()
	on, err := model.Load(m.Path, model.LoadOptions{Layout: l})
	require.NoError(t, err)
	t.Cleanup(func() { on.Close() })
	return on
}

// trainsAlike checks that training on a device equals training on the CPU, resumes from a checkpoint, also with
// gradient checkpointing, and stays within the estimated memory.
func trainsAlike(t *testing.T, m *model.Model, d *ggml.Device, tolerance float64) {
	t.Helper()
	ctx, checkpoint := context.Background(), filepath.Join(t.TempDir(), "checkpoint.gguf")
	cpu := newTrainer(t, m, newEngine(t, device.Options{}), train.CheckpointingOff)
	for range steps / 2 {
		_, err := cpu.Step(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, cpu.SaveCheckpoint(checkpoint))
	require.NoError(t, cpu.Run(ctx, train.RunOptions{}))

	on, e := loadOn(t, m, layout.On(d)), newEngine(t, device.Options{Layout: layout.On(d)})
	far := newTrainer(t, on, e, train.CheckpointingOff)
	require.NoError(t, far.Run(ctx, train.RunOptions{}))
	requireSameLosses(t, cpu.History, far.History, tolerance)

	estimate, err := train.EstimateMemory(layout.On(d), m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), withCopies(trainOptions(nil, train.CheckpointingOff), weightcache.All))
	require.NoError(t, err)
	requireEstimate(t, far.Memory().Plus(on.Sizes()).Plus(estimate.Adapters), estimate.Total())

	resumed := newTrainer(t, on, e, train.CheckpointingOn)
	require.NoError(t, resumed.LoadCheckpoint(checkpoint))
	require.NoError(t, resumed.Run(ctx, train.RunOptions{}))
	requireSameLosses(t, cpu.History, resumed.History, tolerance)

	noisy := chunked
	noisy.Dropout, noisy.NEFTune = 0.2, 5
	for _, o := range []lossgraph.Options{chunked, noisy} {
		_, want := gradients(t, m, newEngine(t, device.Options{}), o)
		_, got := gradients(t, on, e, o)
		requireSameGradients(t, want, got, tolerance)
	}
}

// decodesAlike checks that logits equal the CPU's, with and without an adapter.
func decodesAlike(t *testing.T, m *model.Model, d *ggml.Device, tolerance float64) {
	t.Helper()
	on, cpu, e := loadOn(t, m, layout.On(d)), newEngine(t, device.Options{}), newEngine(t, device.Options{Layout: layout.On(d)})
	require.Less(t, refmath.NMSE(logits(t, on, e, nil), logits(t, m, cpu, nil)), tolerance)
	want := logits(t, m, cpu, trained(t, m).WithScale(1))
	require.Less(t, refmath.NMSE(logits(t, on, e, trained(t, on).WithScale(1)), want), tolerance)
}

func TestRemoteDevice(t *testing.T) {
	m := llmtest.ArchModel(t, "qwen3", ggml.F32)
	d := remote(t)
	trainsAlike(t, m, d, 1e-5)
	decodesAlike(t, m, d, 1e-10)
	resumesExactly(t, m, d)
}

// resumesExactly checks that a run resumed on a device ends like an uninterrupted one.
func resumesExactly(t *testing.T, m *model.Model, d *ggml.Device) {
	t.Helper()
	ctx, checkpoint := t.Context(), filepath.Join(t.TempDir(), "checkpoint.gguf")
	on, e := loadOn(t, m, layout.On(d)), newEngine(t, device.Options{Layout: layout.On(d)})
	ended := func(resume bool) []byte {
		tr := newTrainer(t, on, e, train.CheckpointingOff)
		if resume {
			require.NoError(t, tr.LoadCheckpoint(checkpoint))
		}
		for tr.Steps() < 6 {
			_, err := tr.Step(ctx)
			require.NoError(t, err)
			if tr.Steps() == 3 {
				require.NoError(t, tr.SaveCheckpoint(checkpoint))
			}
		}
		path := filepath.Join(t.TempDir(), "end.gguf")
		require.NoError(t, tr.SaveCheckpoint(path))
		bytes, err := os.ReadFile(path)
		require.NoError(t, err)
		return bytes
	}
	require.Equal(t, ended(false), ended(true))
}

// Tensors outside of the engine's layout are a clear error.
func TestOtherDevice(t *testing.T) {
	d := remote(t)
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	on := loadOn(t, m, layout.On(d))
	e := newEngine(t, device.Options{Layout: layout.On(d)})
	const remedy = "load the model with this layout, and make its adapters for that model"

	_, err := infer.NewSession(m, infer.SessionOptions{Engine: e})
	require.ErrorContains(t, err, "is in memory of CPU")
	require.ErrorContains(t, err, remedy)
	_, err = infer.NewSession(on, infer.SessionOptions{Engine: newEngine(t, device.Options{})})
	require.ErrorContains(t, err, ", but the layout of the engine puts it on CPU; "+remedy)
	_, err = infer.NewSession(on, infer.SessionOptions{Engine: e, Adapters: newAdapter(t, m).WithScale(1)})
	require.ErrorContains(t, err, "lora_a")
	require.ErrorContains(t, err, remedy)

	o := train.Options{Schedule: train.Schedule{Peak: 1, Steps: 1}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1, Engine: e}
	_, err = train.New(m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), o)
	require.ErrorContains(t, err, remedy)
	_, err = train.New(m, train.Trainables{Adapters: newAdapter(t, on).WithScale(1)}, samples(m.Config().Vocab), o)
	require.ErrorContains(t, err, remedy)

	// Without an engine, the trainer creates one with the model's layout.
	o.Engine = nil
	tr, err := train.New(on, train.Trainables{Adapters: newAdapter(t, on).WithScale(1)}, samples(m.Config().Vocab), o)
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	s, err := infer.NewSession(on, infer.SessionOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func loweringName(t *testing.T, e *device.Engine) string {
	t.Helper()
	of, err := e.Lowerings(device.Use{})
	require.NoError(t, err)
	return of(nn.NoLayer, "").Name
}

func TestLoweringOfDevice(t *testing.T) {
	d := remote(t)
	require.Equal(t, "cpu", loweringName(t, newEngine(t, device.Options{})))
	require.Equal(t, "stock", loweringName(t, newEngine(t, device.Options{OpSet: device.Stock})))
	require.Equal(t, "stock", loweringName(t, newEngine(t, device.Options{Layout: layout.On(d)})))
	for _, c := range []struct {
		o    device.Options
		says string
	}{
		{device.Options{Layout: layout.On(d), OpSet: device.Kernels}, `only the CPU has the op set "cpu", not ` + d.Name() + `; leave it out, or use "stock"`},
		{device.Options{OpSet: "fast"}, `there is no op set "fast"; choose "cpu" or "stock"`},
	} {
		_, err := device.New(c.o)
		require.EqualError(t, err, c.says)
	}
}

// Each weight has the lowering of its device: on the CPU the kernels' lowering, unless another is requested.
func TestLoweringsByPlace(t *testing.T) {
	d := remote(t)
	l := layout.Layout{Devices: []*ggml.Device{d}, Of: func(layer int, kind layout.Kind) int {
		if layer == 0 || strings.HasSuffix(string(kind), "_exps") || kind == "token_embd" {
			return 1
		}
		return 0
	}}
	for _, phase := range []device.Phase{device.Training, device.Prefill, device.Decode} {
		of, err := newEngine(t, device.Options{Layout: l}).Lowerings(device.Use{Phase: phase})
		require.NoError(t, err)
		stock, err := newEngine(t, device.Options{Layout: l, OpSet: device.Stock}).Lowerings(device.Use{Phase: phase})
		require.NoError(t, err)
		for _, c := range []struct {
			layer int
			kind  layout.Kind
			want  string
		}{
			{0, "", "cpu"}, {0, "attn_q", "cpu"}, {1, "", "stock"}, {1, "ffn_gate_inp", "stock"}, {1, "ffn_up_exps", "cpu"},
			{nn.NoLayer, "", "stock"}, {nn.NoLayer, "output", "stock"}, {nn.NoLayer, "token_embd", "cpu"},
		} {
			require.Equal(t, c.want, of(c.layer, c.kind).Name, "%v", c)
			require.Equal(t, "stock", stock(c.layer, c.kind).Name, "%v", c)
		}
		require.Same(t, of(0, ""), of(1, "ffn_down_exps"), "the lowering is of the device")
	}
}

func TestMultiplier(t *testing.T) {
	d, stock := remoteOf(t, optest.ServerOptions{}), remoteOf(t, optest.ServerOptions{Stock: true})
	library, err := kernels.GEMMLibrary()
	require.NoError(t, err)
	both := layout.Layout{Devices: []*ggml.Device{d, stock}, Of: func(layer int, _ layout.Kind) int { return max(0, layer) % 2 }}
	there := d.Name() + " with this project's kernels"
	if library == "" {
		there = d.Name() + " with ggml's ops"
	}
	library = cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found")
	forward, back := "16-bit integers", "16-bit integers"
	integers := fmt.Sprintf("%s, forward in %s, gradients of inputs in %s, with %s", library, forward, back, kernels.IntegerInstructions())
	if kernels.FastestType() == ggml.BF16 {
		forward = "bf16"
	}
	if kernels.HasI8() {
		back = "8-bit integers"
	}
	bytes := fmt.Sprintf("%s, forward in %s, gradients of inputs in %s, with %s", library, forward, back, kernels.IntegerInstructions())
	for _, c := range []struct {
		o       device.Options
		weights layout.Sizes
		compute ggml.Type
		want    string
	}{
		{device.Options{}, layout.Sizes{5}, ggml.F32, library},
		{device.Options{}, layout.Sizes{5}, ggml.I16, integers},
		{device.Options{}, layout.Sizes{5}, ggml.I8, bytes},
		{device.Options{OpSet: device.Stock}, layout.Sizes{5}, ggml.F32, "CPU"},
		{device.Options{Layout: layout.On(d)}, layout.Sizes{5, 0}, ggml.F32, there},
		{device.Options{Layout: layout.On(d)}, layout.Sizes{5, 5}, ggml.F32, there + ", on the CPU by " + library},
		{device.Options{Layout: layout.On(d), OpSet: device.Stock}, layout.Sizes{5, 5}, ggml.F32, d.Name() + " with ggml's ops, CPU"},
		{device.Options{Layout: both}, layout.Sizes{5, 5, 0}, ggml.F32, d.Name() + " with ggml's ops, " + stock.Name() + " with ggml's ops"},
		{device.Options{Layout: layout.On(stock)}, layout.Sizes{5, 0}, ggml.F32, stock.Name() + " with ggml's ops"},
	} {
		got, err := newEngine(t, c.o).Multiplier(c.weights, c.compute)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

// A workspace computes one graph after another, and larger ones than it was created for.
func TestWorkspace(t *testing.T) {
	e := newEngine(t, device.Options{Layout: layout.On(remote(t))})
	w, err := e.NewWorkspace()
	require.NoError(t, err)
	defer w.Close()
	require.Equal(t, layout.Sizes{0, 0}, w.Sizes())
	for _, nodes := range []int{3, 20000, 5} {
		c := ggml.NewContext()
		y := c.Arange(0, 4, 1)
		for range nodes {
			y = c.ScaleBias(y, 1, 1)
		}
		g := c.NewGraph(y.SetOutput())
		require.NoError(t, w.Allocate(g))
		require.NoError(t, w.Compute(t.Context(), g))
		got, err := ggml.Read[float32](y)
		require.NoError(t, err)
		require.Equal(t, float32(nodes+3), got[3])
		require.Positive(t, w.Sizes().Total())
		c.Close()
	}
}
