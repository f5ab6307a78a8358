package device_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// splits returns layouts of a device and the CPU, on which kernels compute.
func splits(d *ggml.Device) map[string]layout.Layout {
	onCPU := func(is func(layer int, kind layout.Kind) bool) layout.Layout {
		return layout.Layout{Devices: []*ggml.Device{d}, Of: func(layer int, kind layout.Kind) int {
			if is(layer, kind) {
				return 1
			}
			return 0
		}}
	}
	return map[string]layout.Layout{
		"first layer": onCPU(func(layer int, kind layout.Kind) bool { return layer == 0 || kind == "token_embd" }),
		"output":      onCPU(func(layer int, kind layout.Kind) bool { return layer < 0 }),
		"experts":     onCPU(func(_ int, kind layout.Kind) bool { return strings.HasSuffix(string(kind), "_exps") }),
		"attn_output": onCPU(func(_ int, kind layout.Kind) bool { return kind == "attn_output" || kind == "ffn_norm" }),
	}
}

// Weights on the CPU are computed by kernels, weights on the device are not: adapters and whole weights train as on the
// CPU alone.
func TestSplitTrains(t *testing.T) {
	need.Time(t, "trains many times")
	d := remote(t)
	every := []string{lora.AllLinear, "token_embd", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
	for _, c := range []struct {
		name          string
		base          ggml.Type
		compute       ggml.Type
		checkpointing train.Checkpointing
		weights       bool
		tolerance     float64
	}{
		{"adapters", ggml.Q8_0, ggml.F32, train.CheckpointingOff, false, 1e-4},
		{"checkpoints", ggml.F32, ggml.F32, train.CheckpointingOn, false, 1e-4},
		{"BF16", ggml.Q8_0, ggml.BF16, train.CheckpointingOn, false, 5e-3},
		{"weights", ggml.F32, ggml.F32, train.CheckpointingOff, true, 1e-4},
	} {
		losses := func(t *testing.T, l layout.Layout) []train.StepMetrics {
			on := loadOn(t, llmtest.ArchModel(t, "qwen3moe", c.base), l)
			trained := train.Trainables{}
			if c.weights {
				for w := range on.Weights() {
					if on.Architecture().Weight(w.Name()).IsTrainable() {
						trained.ModelWeights = append(trained.ModelWeights, w)
					}
				}
			} else {
				a, err := lora.New(on, lora.Options{Rank: 4, Alpha: 8, Init: lora.InitKaiming, Seed: 1, Targets: every})
				require.NoError(t, err)
				t.Cleanup(func() { a.Close() })
				trained.Adapters = a.WithScale(1)
			}
			o := trainOptions(newEngine(t, device.Options{Layout: l}), c.checkpointing)
			if l.Of != nil {
				o.ComputeType = c.compute
			}
			tr, err := train.New(on, trained, samples(on.Config().Vocab), o)
			require.NoError(t, err)
			defer tr.Close()
			run(t, tr)
			return tr.History
		}
		want := losses(t, layout.Layout{})
		for name, l := range splits(d) {
			t.Run(c.name+" "+name, func(t *testing.T) {
				requireKernels(t, l)
				requireSameLosses(t, want, losses(t, l), c.tolerance)
			})
		}
	}
}

// requireKernels checks until the end of the test that graphs use kernels, and that kernels multiply no weight on a
// device.
func requireKernels(t *testing.T, l layout.Layout) {
	kernels := 0
	testhook.Scheduled = func(_, graph any) {
		for x := range graph.(*ggml.Graph).Nodes() {
			if x.OpCode().String() != "custom" {
				continue
			}
			kernels++
			for _, s := range append(x.Sources(), x) {
				if bt := s.BufferType(); bt != nil && s.NumElements() > 64 && strings.HasPrefix(s.Name(), "blk.") {
					require.True(t, bt.IsHost(), "%v of %v", s, x)
				}
			}
		}
	}
	t.Cleanup(func() {
		testhook.Scheduled = nil
		require.Positive(t, kernels)
	})
}

// Sessions have the logits of the CPU alone, also with repacked matrices in the CPU's part.
func TestSplitSessions(t *testing.T) {
	need.Time(t, "decodes in many layouts")
	d := remote(t)
	for _, typ := range []ggml.Type{ggml.F32, ggml.Q8_0} {
		m, bound := llmtest.ArchModel(t, "qwen3moe", typ), 1e-10
		if typ != ggml.F32 {
			bound = 5e-3 // whether products round x to 8 bits may differ
		}
		want := logits(t, m, newEngine(t, device.Options{}), trained(t, m).WithScale(1))
		for name, l := range splits(d) {
			t.Run(typ.String()+" "+name, func(t *testing.T) {
				requireKernels(t, l)
				e := newEngine(t, device.Options{Layout: l})
				for _, repack := range []bool{false, true} {
					on, err := model.Load(m.Path, model.LoadOptions{Layout: l, Repack: repack})
					require.NoError(t, err)
					defer on.Close()
					require.Equal(t, repack && name != "experts", on.Repacked())
					require.Less(t, refmath.NMSE(logits(t, on, e, trained(t, on).WithScale(1)), want), bound)
				}
			})
		}
	}
}

// If stock ops are requested, the CPU uses only those.
func TestSplitByStock(t *testing.T) {
	l := splits(remote(t))["first layer"]
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	on, e := loadOn(t, m, l), newEngine(t, device.Options{Layout: l, OpSet: device.Stock})
	testhook.Scheduled = func(_, graph any) {
		for x := range graph.(*ggml.Graph).Nodes() {
			require.NotEqual(t, "custom", x.OpCode().String(), "%v", x)
		}
	}
	defer func() { testhook.Scheduled = nil }()
	logits(t, on, e, trained(t, on).WithScale(1))
	run(t, newTrainer(t, on, e, train.CheckpointingOn))
}
