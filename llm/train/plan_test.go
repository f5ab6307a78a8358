package train

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// planOf returns a plan of an adapter's run on the CPU, with the given memory.
func planOf(t *testing.T, name string, available int64) Plan {
	t.Helper()
	m := llmtest.ArchModel(t, name, ggml.F32)
	a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 4}))(t)
	t.Cleanup(func() { a.Close() })
	return Plan{
		Model: m, Trained: Trainables{Adapters: a.WithScale(1)}, Data: data.New(24, fewTokens(7, 24)), Options: runOptions(),
		Evaluated: []*data.Dataset{data.New(20, fewTokens(3, 20))}, Available: layout.Sizes{available},
	}
}

// fewTokens returns random samples with tokens that all vocabularies have.
func fewTokens(n, length int) []data.Sample {
	samples := randomSamples(n, length)
	for _, s := range samples {
		for i := range s.Tokens {
			s.Tokens[i] %= 32
		}
	}
	return samples
}

// taken returns the memory of a run after a step and an evaluation.
func (p Plan) taken(t *testing.T, c Checkpointing) layout.Sizes {
	t.Helper()
	p.Options.Checkpointing = c
	tr := need.Value(New(p.Model, p.Trained, p.Data, p.Options))(t)
	defer tr.Close()
	require.NoError(t, tr.Run(t.Context(), RunOptions{EvalData: p.Evaluated[0]}))
	e := need.Value(p.estimate(c))(t)
	return tr.Memory().Plus(p.Model.Sizes()).Plus(e.Adapters)
}

// The estimate before a run is within 5 % of the memory taken.
func TestPlanOfMemory(t *testing.T) {
	for _, name := range []string{"llama", "gemma3", "qwen3moe"} {
		for _, packed := range []bool{false, true} {
			for _, c := range []Checkpointing{CheckpointingOff, CheckpointingOn} {
				t.Run(fmt.Sprintf("%s/packed %v/%v", name, packed, c), func(t *testing.T) {
					p := planOf(t, name, plenty)
					p.Options.Schedule.Steps, p.Options.Checkpointing = 1, c
					if packed {
						p.Data = need.Value(data.New(24, fewTokens(9, 11)).Packed(0))(t)
					}
					e, chosen, err := p.Memory()
					require.NoError(t, err)
					require.Equal(t, c, chosen)
					taken := p.taken(t, c).Total()
					t.Logf("said %d, taken %d", e.Total().Total(), taken)
					require.InEpsilon(t, taken, e.Total().Total(), 0.05)
				})
			}
		}
	}
}

// CheckpointingAuto is estimated with the choice that the run will make.
func TestPlanOfCheckpointing(t *testing.T) {
	p := planOf(t, "llama", plenty)
	off, c, err := p.Memory()
	require.NoError(t, err)
	require.Equal(t, CheckpointingOff, c)
	require.True(t, off.Fits(off.Total()))
	require.False(t, off.Fits(layout.Sizes{off.Total().Total() - 1}))
	require.False(t, off.Fits(nil))
	p.Available = off.Total()
	on, c, err := p.Memory()
	require.NoError(t, err)
	require.Equal(t, CheckpointingOn, c)
	require.Less(t, on.Step.Total(), off.Step.Total())
	withAvailable(t, p.Available[0]-off.Weights[0]) // weights are not mapped here
	tr := need.Value(New(p.Model, p.Trained, p.Data, p.Options))(t)
	defer tr.Close()
	require.True(t, tr.HasCheckpointing())
}

// A run with StepMemory takes no more than a limit of all its memory, and what the plan says. The smallest limit is in the
// error of a smaller one.
func TestPlanOfLimit(t *testing.T) {
	need.Time(t, "measures many plans")
	for _, name := range []string{"llama", "qwen3moe"} {
		p := planOf(t, name, plenty)
		p.IsLimit = true
		most := need.Value(p.estimate(CheckpointingOff))(t).Total()
		least := need.Value(p.estimate(CheckpointingOn))(t).Total()
		recomputed := 1.0
		for i := range int64(5) {
			p.Available = layout.Sizes{least[0] + (most[0]-least[0])*i/4}
			e, c, err := p.Memory()
			require.NoError(t, err)
			require.True(t, e.Fits(p.Available))
			require.Equal(t, i < 4, c == CheckpointingOn)
			require.LessOrEqual(t, e.Recomputed, recomputed)
			recomputed = e.Recomputed

			o := p.Options
			o.Memory = need.Value(p.StepMemory())(t)
			tr := need.Value(New(p.Model, p.Trained, p.Data, o))(t)
			_, err = tr.Step(t.Context())
			require.NoError(t, err)
			took := tr.loss.Memory().Total()
			require.LessOrEqual(t, took, o.Memory.Total())
			require.InEpsilon(t, e.Step.Total(), took, 0.05)
			require.InDelta(t, recomputed, tr.Recomputed(), 0.1)
			require.NoError(t, tr.Close())
		}
		require.Zero(t, recomputed)
		p.Available = layout.Sizes{least[0] - 1}
		_, err := p.StepMemory()
		var none *FitError
		require.ErrorAs(t, err, &none)
		require.Equal(t, least[0], none.Need)
	}
}

// The largest batch and the longest sample fit, and larger ones do not.
func TestLargestThatFits(t *testing.T) {
	p := planOf(t, "llama", 0)
	p.Options.Checkpointing, p.Options.Batch = CheckpointingOff, 3
	e, _, err := p.Memory()
	require.NoError(t, err)
	p.Available = e.Total()
	n, more, err := p.LargestBatch()
	require.NoError(t, err)
	require.Equal(t, 3, n, "what fits as it is")
	require.False(t, more)
	n = need.Value(p.LongestSample())(t)
	require.GreaterOrEqual(t, n, 24)
	require.LessOrEqual(t, n, 28)

	p.Available = layout.Sizes{0}
	n, more, err = p.LargestBatch()
	require.NoError(t, err)
	require.Zero(t, n)
	require.False(t, more)
	n = need.Value(p.LongestSample())(t)
	require.Zero(t, n)
	p.Available = layout.Sizes{plenty}
	n, more, err = p.LargestBatch()
	require.NoError(t, err)
	require.Equal(t, mostPlannedRows, n)
	require.True(t, more)
	p.Options.Epochs, p.Options.Schedule.Steps = 2, 0
	n, more, err = p.LargestBatch()
	require.NoError(t, err)
	require.Equal(t, 2*p.Data.Len(), n)
	require.False(t, more)
	n = need.Value(p.LongestSample())(t)
	require.Equal(t, p.Model.Config().Context, n)

	_, _, err = Plan{}.LargestBatch()
	require.Error(t, err)
	_, err = Plan{}.LongestSample()
	require.Error(t, err)
	p.Options.Batch = 1 << 40 // rows that no memory holds
	_, err = p.LongestSample()
	require.ErrorContains(t, err, "the limit is 1048576 rows")
}

// Settings that fit never exceed the reported maxima, even for batches beyond the data and samples
// much shorter than the model's context.
func TestOwnSettingsFit(t *testing.T) {
	p := planOf(t, "llama", plenty)
	p.Options.Checkpointing, p.Options.Epochs, p.Options.Schedule.Steps, p.Options.Batch = CheckpointingOff, 1, 0, p.Data.Len()+2
	n, more, err := p.LargestBatch()
	require.NoError(t, err)
	require.Equal(t, p.Data.Len()+2, n)
	require.False(t, more)

	p = planOf(t, "llama", 0)
	c := p.Model.Config()
	c.Context = 1 << 17 // 2048 is a 64th of it
	m := need.Value(model.New(c, nil, 1))(t)
	defer m.Close()
	a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 4}))(t)
	defer a.Close()
	p.Model, p.Trained.Adapters = m, a.WithScale(1)
	e, _, err := p.Memory()
	require.NoError(t, err)
	p.Available = e.Total()
	n = need.Value(p.LongestSample())(t)
	require.GreaterOrEqual(t, n, 24)
	p.Data = data.New(64, fewTokens(7, 64)) // does not fit
	n = need.Value(p.LongestSample())(t)
	require.Positive(t, n)
	require.Less(t, n, 64)
}
