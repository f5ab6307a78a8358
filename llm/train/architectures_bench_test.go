package train_test

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
)

// BenchmarkArchitecture alternates steps of other architectures and of llama, with shapes of about a
// billion parameters, and reports the ratio of their FLOP/s, counting only a mixture's active experts.
func BenchmarkArchitecture(b *testing.B) {
	need.Time(b, "takes minutes")
	const base = ggml.Q8_0
	run := scalingRun{Context: 512, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), ComputeType: autoType(b)}
	llama := benchmodel.Large()
	for _, c := range benchmodel.Others() {
		b.Run(fmt.Sprintf("model=%s/base=%v", c.Name, base), func(b *testing.B) {
			ours, theirs := run.on(b, c, base), run.on(b, llama, base)
			_, budget := testutil.BenchTime(b)
			testutil.Once(b, func() {
				other, reference := startSteps(b, trainSteps, ours), startSteps(b, trainSteps, theirs)
				turns := testutil.InTurn(testutil.Rounds(), budget, reference.sample, other.sample)
				other.report(b, turns.Median(1), c)
				b.ReportMetric(turns.Ratio(0, 1)*other.flops(c)/reference.flops(llama), "×llama")
			})
		})
	}
}

// BenchmarkGatedDeltaLayer alternates steps of two layers of Qwen3.5-0.8B with the gated delta rule and of two with attention, of
// the same width and feed-forward network, and reports their ratio. The vocabulary is small, so that layers take the time.
func BenchmarkGatedDeltaLayer(b *testing.B) {
	need.Time(b, "takes minutes")
	delta := benchmodel.Qwen35()
	delta.Layers, delta.Vocab, delta.Context = 2, 4096, 16384
	attention := delta
	delta.Name, delta.AttentionStep = "qwen35-delta", delta.Layers+1
	attention.Name, attention.AttentionStep = "qwen35-attention", 1
	for _, n := range []int{2048, 4096, 8192, 16384} {
		b.Run(fmt.Sprintf("context=%d", n), func(b *testing.B) {
			run := scalingRun{Context: n, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), Checkpointing: true, ComputeType: autoType(b)}
			testutil.Once(b, func() {
				ours, theirs := startSteps(b, trainSteps, run.on(b, delta, ggml.Q8_0)), startSteps(b, trainSteps, run.on(b, attention, ggml.Q8_0))
				turns := testutil.InTurn(testutil.Rounds(), 0, ours.sample, theirs.sample)
				ours.report(b, turns.Median(0), delta)
				b.ReportMetric(turns.Ratio(1, 0), "×attention")
			})
		})
	}
}

// BenchmarkLongHybrid measures a step of Qwen3.5-0.8B, three of four of whose layers have the gated delta rule.
func BenchmarkLongHybrid(b *testing.B) {
	need.Time(b, "takes minutes")
	c := benchmodel.Qwen35()
	for _, n := range []int{2048, 16384} {
		r := scalingRun{Context: n, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), Checkpointing: true, ComputeType: autoType(b)}
		b.Run(fmt.Sprintf("model=%s/base=%v/context=%d", c.Name, ggml.Q8_0, n), func(b *testing.B) { benchmarkSteps(b, c, ggml.Q8_0, r) })
	}
}

// BenchmarkLargeMixture measures steps of a mixture of 8 billion parameters in Q4_K, with adapters of
// attention, the router and all experts, within 12 GB including the 4.6 GB of the model, which is
// mapped from a file that is removed afterwards.
func BenchmarkLargeMixture(b *testing.B) {
	need.Time(b, "takes minutes")
	const base, most = ggml.Q4_K, 12_000_000_000
	e, err := device.NewCPU(1)
	require.NoError(b, err)
	available := e.AvailableMemory()[0]
	require.NoError(b, e.Close())
	if available < most {
		b.Skipf("there are %d bytes of memory available, fewer than the %d that a step may take", available, int64(most))
	}
	c := benchmodel.Qwen3MoE8B()
	run := scalingRun{
		Context: 512, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), ComputeType: autoType(b),
		Targets: []string{lora.AllLinear, "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"},
	}
	run.Model, err = benchmodel.File(b.TempDir(), c.Name, c, base)
	if errors.Is(err, syscall.ENOSPC) {
		b.Skip(err)
	}
	require.NoError(b, err)
	rounds, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		steps := startSteps(b, trainSteps, run)
		steps.report(b, testutil.InTurn(rounds, budget, steps.sample).Median(0), c)
		require.Less(b, steps.process.Peak, uint64(most))
	})
}
