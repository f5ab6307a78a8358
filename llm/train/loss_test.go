package train

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// preferFirst prefers the first sample of each pair to the second: −log σ(β · the difference of their
// log-probabilities), as DPO does with a reference that has no preference.
func preferFirst(beta float64) Loss {
	return Loss{Name: "prefer first", ByRow: true, Of: func(samples []data.Sample) lossgraph.SampleLoss {
		pairs := float64(len(samples) / 2)
		return func(logProbs []float64) (loss float64, slopes []float64) {
			for pair := range slices.Chunk(logProbs, 2) {
				margin := beta * (pair[0] - pair[1])
				loss += math.Log1p(math.Exp(-margin)) / pairs
				slope := -beta / (1 + math.Exp(margin)) / pairs
				slopes = append(slopes, slope, -slope)
			}
			return loss, slopes
		}
	}}
}

// pairs returns rows of two random samples of a random length, some of weighted tokens.
func pairs(t *testing.T, n, vocab int) *data.Dataset {
	t.Helper()
	const length = 40
	var rows []data.Row
	samples := raggedSamples(2*n, vocab)
	for i, row := range slices.Collect(slices.Chunk(samples, 2)) {
		for side := range row {
			row[side].Tokens = row[side].Tokens[:min(len(row[side].Tokens), length/2+1)]
			if row[side].LossWeights = nil; i%3 == 0 {
				row[side].LossWeights = slices.Repeat([]float32{0.5, 0, 2}, length)[:row[side].Predicted()]
			}
		}
		rows = append(rows, row)
	}
	d, err := data.NewRows(length, rows)
	require.NoError(t, err)
	return d
}

// answers returns pairs of random answers to a prompt of some length, each of a record.
func answers(t *testing.T, n, prompt, vocab int) *data.Dataset {
	t.Helper()
	var rows []data.Row
	for i := range n {
		var row data.Row
		for side := range 2 {
			s := data.Sample{Tokens: llmtest.RandomTokens(uint64(i), prompt+i%3, vocab), Origin: data.Origin{Line: i + 1}}
			s.LossWeights = make([]float32, len(s.Tokens)-1)
			for j, token := range llmtest.RandomTokens(uint64(100+2*i+side), 3+side+i%4, vocab) {
				s.Tokens, s.LossWeights = append(s.Tokens, token), append(s.LossWeights, float32(1+j%2))
			}
			row = append(row, s)
		}
		rows = append(rows, row)
	}
	d, err := data.NewRows(60, rows)
	require.NoError(t, err)
	return d
}

// exactPairs returns a loss of pairs of samples in float64, and its gradients: of each sample alone, by
// the slope for it.
func exactPairs(t *testing.T, m *model.Model, adapters model.Adapters, grads map[*ggml.Tensor]*ggml.Tensor, d *data.Dataset, l Loss) (loss float64, sum map[*ggml.Tensor][]float64) {
	t.Helper()
	var samples []data.Sample
	var batches []lossgraph.Batch
	var logProbs []float64
	for i := range d.Len() {
		row, err := d.Row(i)
		require.NoError(t, err)
		for _, s := range row {
			n := s.Predicted()
			b := lossgraph.Batch{Tokens: s.Tokens[:n], Targets: s.Tokens[1:], LossWeights: s.LossWeights}
			if b.LossWeights == nil {
				b.LossWeights = slices.Repeat([]float32{1}, n)
			}
			values := llmtest.ExactLoss(t, m, b, lossgraph.Options{Length: n, Adapters: adapters}).Run().Named("losses")
			logProb := 0.0
			for i, x := range values {
				logProb -= float64(b.LossWeights[i]) * x
			}
			samples, batches, logProbs = append(samples, s), append(batches, b), append(logProbs, logProb)
		}
	}
	loss, slopes := l.Of(samples)(logProbs)
	sum = map[*ggml.Tensor][]float64{}
	for i, b := range batches {
		weighted, err := b.WithSlopes(slopes[i : i+1])
		require.NoError(t, err)
		_, part := llmtest.ExactGradients(t, m, weighted, lossgraph.Options{Length: len(b.Tokens), Adapters: adapters, Grads: grads}, llmtest.SmoothGELU)
		for x, g := range part {
			if sum[x] == nil {
				sum[x] = make([]float64, len(g))
			}
			for j := range g {
				sum[x][j] += g[j]
			}
		}
	}
	return loss, sum
}

// In the first step of a loss of pairs the loss, the norm and the gradients equal float64's, by both op sets,
// in several batches, with the loss scaled or not. After some steps the first sample of each pair is preferred.
func TestLossOfPairs(t *testing.T) {
	need.Time(t, "trains many times")
	vocab := tinyLoRAModel(t).Config().Vocab
	testLossOfPairs(t, pairs(t, 6, vocab), false, preferFirst(0.7))
}

// They equal float64's for two pairs in a row too, of which each shares its own prompt.
func TestLossOfPackedPairs(t *testing.T) {
	need.Time(t, "trains many times")
	d := answers(t, 12, 14, tinyLoRAModel(t).Config().Vocab)
	d.Length = 2 * d.LongestRow()
	packed, err := d.Packed(1)
	require.NoError(t, err)
	require.Equal(t, [2]int{6, 24}, [2]int{packed.Len(), packed.NumSamples()})
	testLossOfPairs(t, packed, true, preferFirst(0.7))
}

// They equal float64's if some samples have no gradient, in rows of any length.
func TestLossOfIdleSamples(t *testing.T) {
	need.Time(t, "trains many times")
	of := preferFirst(0.7).Of
	idle := Loss{Name: "prefer first, some idle", Of: func(samples []data.Sample) lossgraph.SampleLoss {
		return func(logProbs []float64) (float64, []float64) {
			loss, slopes := of(samples)(logProbs)
			for i, s := range samples { // some of either side, and some of both
				if s.Tokens[len(s.Tokens)-1]%3 == 0 {
					slopes[i] = 0
				}
			}
			return loss, slopes
		}
	}}
	vocab := tinyLoRAModel(t).Config().Vocab
	testLossOfPairs(t, pairs(t, 6, vocab), false, idle)
	testLossOfPairs(t, answers(t, 6, 14, vocab), true, idle)
}

// They equal float64's if answers share their prompts.
func TestLossOfSharedPrompts(t *testing.T) {
	vocab := tinyLoRAModel(t).Config().Vocab
	testLossOfPairs(t, answers(t, 6, 14, vocab), true, preferFirst(0.7))
}

func testLossOfPairs(t *testing.T, d *data.Dataset, shares bool, l Loss) {
	if l.ByRow { // without it, the log-probabilities take a pass of their own
		own := l
		own.ByRow = false
		testLossOfPairs(t, d, shares, own)
	}
	for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
		e, err := device.New(device.Options{Threads: 2, OpSet: ops})
		require.NoError(t, err)
		t.Cleanup(func() { e.Close() })
		m := tinyLoRAModel(t)
		o := Options{
			Schedule: Schedule{Peak: 0.02, Steps: 12}, AdamW: DefaultAdamW(), Batch: 2, Accumulate: 3, Seed: 3, Engine: e, Loss: l,
			Checkpointing: CheckpointingOff,
		}
		o.AdamW.Clip = 0
		r := newLoRARun(t, m, d, o, lora.Options{Rank: 2, Alpha: 4, Init: lora.InitKaiming, Seed: 5})

		require.Equal(t, shares, r.SharesPrompts())
		require.Equal(t, !l.ByRow || ops == device.Stock, r.scores != nil)

		// Gradients do not outlive a step, so the first moments have them: (1 − β₁) · gradient.
		want, exact := exactPairs(t, m, r.adapters, r.opt.grad, d, o.Loss)
		got, err := r.Step(t.Context())
		require.NoError(t, err)
		require.InEpsilon(t, want, got.Loss, 1e-5)
		require.Equal(t, o.Batch*o.Accumulate, r.position)
		squares := 0.0
		for i, p := range r.opt.params {
			first, err := ggml.Read[float32](r.opt.first[i])
			require.NoError(t, err)
			for j, g := range exact[p.Tensor] {
				squares += g * g
				exact[p.Tensor][j] = (1 - o.AdamW.Beta1) * g
			}
			require.Less(t, refmath.RelativeError(first, exact[p.Tensor]), 2e-4, p.Name())
		}
		require.InEpsilon(t, math.Sqrt(squares), got.GradNorm, 1e-4)
		require.NoError(t, r.Run(t.Context(), RunOptions{}))
		require.Less(t, r.History[11].Loss, 0.5*r.History[0].Loss)
		require.NoError(t, r.Close())
		require.NotEmpty(t, r.Memory())
	}
}

// Prompts are shared where that saves much, and where the model allows it; batches of cross-entropy stay as they are.
func TestWhenPromptsAreShared(t *testing.T) {
	long, short := answers(t, 4, 14, 96), answers(t, 4, 1, 96)
	of := func(name string, d *data.Dataset, l Loss) batchShape {
		s, err := (&Options{Loss: l}).stepShape(llmtest.ArchModel(t, name, ggml.F32).Architecture(), d, 2)
		require.NoError(t, err)
		return s
	}
	shared := of("llama", long, preferFirst(1))
	require.True(t, shared.branched)
	require.Less(t, shared.longestRow, long.LongestRow())
	for _, s := range []batchShape{of("llama", short, preferFirst(1)), of("mamba2", long, preferFirst(1)), of("llama", long, Loss{})} {
		require.False(t, s.branched)
	}
}

// Answers that share a prompt have the same log-probabilities as alone, also where the tokens that are left sort rows
// otherwise.
func TestLogProbsOfSharedPrompts(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	d, other := answers(t, 5, 14, m.Config().Vocab), answers(t, 3, 2, m.Config().Vocab)
	var rows []data.Row
	var alone []data.Sample
	for _, from := range []*data.Dataset{other, d} {
		for i := range from.Len() {
			row := need.Value(from.Row(i))(t)
			rows, alone = append(rows, row), append(alone, row...)
		}
	}
	d = need.Value(data.NewRows(max(d.Length, other.Length), rows))(t)
	for _, batch := range []int{0, 3} {
		e := need.Value(NewEvaluator(m, EvaluatorOptions{Threads: 1, Batch: batch}))(t)
		defer e.Close()
		samples, got, err := e.SampleLogProbs(t.Context(), nil, d)
		require.NoError(t, err)
		require.True(t, e.numberedShape.branched)
		require.Less(t, e.numberedShape.longestRow, d.LongestRow())
		require.Equal(t, alone, samples)
		want := slices.Concat(need.Value(e.LogProbs(t.Context(), nil, data.New(d.Length, alone)))(t)...)
		require.Less(t, refmath.RelativeError(got, want), 1e-5)
	}
}

// Cross-entropy is the plain case: as a Loss it changes no bit of the parameters, where the number of
// tokens is a power of two.
func TestCrossEntropyAsLoss(t *testing.T) {
	var samples []data.Sample
	for i := range 8 {
		samples = append(samples, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 9, 96)})
	}
	mean := Loss{Name: "mean", ByRow: true, Of: func(samples []data.Sample) lossgraph.SampleLoss {
		return func(logProbs []float64) (loss float64, slopes []float64) {
			loss, slopes = lossgraph.CrossEntropy(logProbs)
			tokens := 0
			for _, s := range samples {
				tokens += s.Targets()
			}
			for i := range slopes {
				slopes[i] /= float64(tokens)
			}
			return loss / float64(tokens), slopes
		}
	}}
	var runs []*loraRun
	twoPasses := mean
	twoPasses.ByRow = false
	for _, l := range []Loss{{}, mean, twoPasses} {
		o := runOptions()
		o.Batch, o.Accumulate, o.Loss = 2, 2, l
		r := newLoRARun(t, tinyLoRAModel(t), data.New(8, samples), o, lora.Options{Rank: 2, Alpha: 4, Init: lora.InitKaiming, Seed: 5})
		require.NoError(t, r.Run(t.Context(), RunOptions{}))
		runs = append(runs, r)
	}
	for _, run := range runs[1:] {
		require.Equal(t, adapterValues(t, runs[0]), adapterValues(t, run))
		for i, want := range runs[0].History {
			got := run.History[i]
			require.InEpsilon(t, want.Loss, got.Loss, 1e-6)
			got.Loss = want.Loss
			require.Equal(t, want, got)
		}
	}
}

// The processes of a group compute the loss of all pairs, up to rounding.
func TestLossOfGroup(t *testing.T) {
	o := Options{
		Schedule: Schedule{Peak: 0.01, Steps: 4}, AdamW: DefaultAdamW(), Batch: 2, Accumulate: 2, Seed: 3, Threads: 1, Loss: preferFirst(0.7),
		Checkpointing: CheckpointingOn,
	}
	d := pairs(t, 7, 96)
	one := groupRun(t, 1, d, o, device.Kernels)[0]
	require.NoError(t, one.Run(t.Context(), RunOptions{}))
	ranks := groupRun(t, 3, d, o, device.Kernels, device.Stock)
	requireAll(t, together(ranks, func(_ int, r *loraRun) error { return r.Run(t.Context(), RunOptions{}) }), nil)
	requireAlikeSteps(t, one.History, ranks[1].History, 1e-5, 1e-3)
}

// A checkpoint belongs to its loss, and one of cross-entropy says nothing of a loss, as before.
func TestLossInCheckpoint(t *testing.T) {
	m := tinyLoRAModel(t)
	with := func(l Loss) *loraRun {
		o := runOptions()
		o.Loss = l
		return usualRunWith(t, m, o)
	}
	saved := func(r *loraRun) string {
		path := filepath.Join(t.TempDir(), "run.gguf")
		_, err := r.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.SaveCheckpoint(path))
		return path
	}
	sum := Loss{Name: "sum", Of: func([]data.Sample) lossgraph.SampleLoss { return lossgraph.CrossEntropy }}
	plain, own := saved(with(Loss{})), saved(with(sum))
	g, err := ggml.OpenGGUF(plain)
	require.NoError(t, err)
	_, found := g.Value(fixedKeys + string(SettingLoss))
	require.NoError(t, g.Close())
	require.False(t, found)

	require.NoError(t, with(Loss{}).LoadCheckpoint(plain))
	require.NoError(t, with(sum).LoadCheckpoint(own))
	require.ErrorContains(t, with(sum).LoadCheckpoint(plain), "loss was absent, is sum")
	require.ErrorContains(t, with(Loss{}).LoadCheckpoint(own), "loss was sum, is absent")
	sum.Name = "other"
	require.ErrorContains(t, with(sum).LoadCheckpoint(own), "loss was sum, is other")
}

func TestLossErrors(t *testing.T) {
	m := tinyLoRAModel(t)
	of := func(loss float64, slopes ...float64) func([]data.Sample) lossgraph.SampleLoss {
		return func([]data.Sample) lossgraph.SampleLoss {
			return func([]float64) (float64, []float64) { return loss, slopes }
		}
	}
	o := runOptions()
	for _, o.Loss = range []Loss{{Name: "x"}, {Of: of(0)}} {
		require.EqualError(t, o.validate(), "the loss has a name and no function, or a function and no name; checkpoints need the name")
	}
	o.Loss, o.Dropout = Loss{Name: "x", Of: of(0)}, 0.1
	require.EqualError(t, o.validate(), `the loss "x" depends on log-probabilities, which are computed without noise; set Dropout and NEFTune to 0`)
	n := runOptions().Batch * runOptions().Accumulate
	for _, byRow := range []bool{false, true} {
		step := func(of func([]data.Sample) lossgraph.SampleLoss) error {
			o := runOptions()
			o.Loss = Loss{Name: "x", ByRow: byRow, Of: of}
			r := usualRunWith(t, m, o)
			require.Equal(t, byRow, r.scores == nil)
			before := adapterValues(t, r)
			_, err := r.Step(context.Background())
			require.Equal(t, err != nil, slices.Equal(before, adapterValues(t, r)))
			return err
		}
		require.EqualError(t, step(of(1)), `the loss "x" returns 0 slopes for 4 samples`)
		require.EqualError(t, step(func([]data.Sample) lossgraph.SampleLoss { return nil }), `the loss "x" returns no function of the log-probabilities: it is nil`)
		require.ErrorIs(t, step(of(math.Inf(1), make([]float64, n)...)), ErrDiverged)
		require.ErrorIs(t, step(of(1, slices.Repeat([]float64{math.NaN()}, n)...)), ErrDiverged)
		err := step(func([]data.Sample) lossgraph.SampleLoss {
			return func(logProbs []float64) (float64, []float64) {
				return 0, slices.Repeat([]float64{logProbs[0] + logProbs[n-1]}, n)
			}
		})
		if byRow {
			require.ErrorContains(t, err, `the loss "x" is ByRow, but the slope of sample 0 depends on other rows: it was `)
		} else {
			require.NoError(t, err)
		}
	}

	_, err := data.NewRows(3, []data.Row{{{Tokens: make([]int32, 3)}, {Tokens: make([]int32, 3)}}})
	require.EqualError(t, err, "row 0 has 4 predicted tokens; at most 3 fit")
}
