package training

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Likely mistakes are warned of, and not rejected.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		rate          float64
		warmup, steps int
		want          string
	}{
		{2e-4, 4, 4, ""},
		{0.01, 0, 1, ""},
		{2, 0, 1, "warning: --adam-alpha 2 is far too high for most runs: above 0.01 the loss usually rises\n"},
		{2e-4, 100, 40, "warning: --warmup 100 is longer than the run of 40 steps: the learning rate never reaches --adam-alpha 0.0002\n"},
		{2e-4, 2, 1, "warning: --warmup 2 is longer than the run of 1 step: the learning rate never reaches --adam-alpha 0.0002\n"},
	} {
		f := Flags{OptimizerFlags: OptimizerFlags{Rate: c.rate, Warmup: c.warmup, Batch: 1, GradAcc: 1}}
		var out strings.Builder
		require.NoError(t, f.Prepare(&out))
		f.warnOfWarmup(&out, c.steps)
		require.Equal(t, c.want, out.String())
	}
}

// The error for a size that is too large names the flag, before anything is computed.
func TestSizesAreNamed(t *testing.T) {
	f := Flags{OptimizerFlags: OptimizerFlags{Batch: 65536, GradAcc: 17}}
	require.EqualError(t, f.Prepare(new(strings.Builder)), "--batch 65536 with --grad-acc 17: a step can have at most 1048576 samples")
	f.GradAcc = 16
	require.NoError(t, f.Prepare(new(strings.Builder)))

	const embd = 2048
	config := arch.Config{
		Arch: "llama", Vocab: 16, Context: 64, Embd: embd, FF: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: embd, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 64, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1},
	}
	m := need.Value(model.New(config, nil, 1))(t)
	defer m.Close()
	trainer := func(checkpointing bool, batch, length int) error {
		f := Flags{OptimizerFlags: OptimizerFlags{
			Rate: 1e-3, Schedule: "cosine", Iter: 1, Batch: batch, GradAcc: 1, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Checkpointing: checkpointing,
		}}
		o := need.Value(f.Options(1))(t)
		tr, err := f.NewTrainer(m, train.Trainables{ModelWeights: []*ggml.Tensor{m.Weight("blk.0.ffn_up.weight")}}, data.New(length, samplesOf(length)), o)
		if err == nil {
			tr.Close()
		}
		return err
	}
	const tokens = 1 << 30 / 4 / embd
	for _, checkpointing := range []bool{false, true} {
		require.EqualError(t, trainer(checkpointing, 65536, 16),
			fmt.Sprintf("--batch 65536: with samples of 16 tokens, a batch can have at most %d; a larger --grad-acc keeps the number of samples per step", tokens/16))
	}
	require.NoError(t, trainer(true, tokens/16, 16), "the largest that is computed")

	var large Flags
	large.Ctx = 1 << 20
	require.EqualError(t, large.NameFlags(&lossgraph.BatchSizeError{Batch: 1, Length: 1 << 20, MaxTokens: 1 << 17}),
		"--ctx 1048576: a sample of 1048576 tokens is too long: this model can train on 131072 at a time")
	const memory = "a step takes 312.0 GiB of memory beside the model, but CPU has only 14.0 GiB available; use smaller batches or shorter samples"
	tooMuch := &train.MemoryError{Device: "CPU", Need: 312 << 30, Available: 14 << 30}
	require.EqualError(t, large.NameFlags(tooMuch), "--ctx 1048576: "+memory+"; --use-checkpointing tries it all the same")
	large.Batch = 4096
	require.EqualError(t, large.NameFlags(fmt.Errorf("wrapped: %w", tooMuch)), "--batch 4096: "+memory+"; a smaller --batch with a larger --grad-acc trains on as many samples per step; --use-checkpointing tries this batch all the same")
}
