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
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
)

// BenchmarkArchitecture alternates steps of other architectures and of llama, with shapes of about a
// billion parameters, and reports the ratio of their FLOP/s, counting only a mixture's active experts.
func BenchmarkArchitecture(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	const base = ggml.Q8_0
	run := scalingRun{Context: 512, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), ComputeType: kernels.FastestType()}
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

// BenchmarkLargeMixture measures steps of a mixture of 8 billion parameters in Q4_K, with adapters of
// attention, the router and all experts, within 12 GB including the 4.6 GB of the model, which is
// mapped from a file that is removed afterwards.
func BenchmarkLargeMixture(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
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
		Context: 512, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), ComputeType: kernels.FastestType(),
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
