package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// stockRun is a run by the ops that all devices have, which keeps so much of weights; nil for what fits.
func stockRun(t *testing.T, m *model.Model, compute ggml.Type, c Checkpointing, kept *model.Kept) *loraRun {
	t.Helper()
	e, err := device.New(device.Options{Threads: 1, OpSet: device.Stock})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	o := runOptions()
	o.Engine, o.Checkpointing, o.ComputeType, o.WeightCopies = e, c, compute, kept
	return newLoRARun(t, m, data.New(24, randomSamples(7, 24)), o, lora.Options{Rank: 8, Alpha: 4, Targets: []string{"attn_q"}})
}

// Copies of weights save work and change nothing, also where a run goes on with others of them; adapters
// that are folded into them change no more than rounding does. Graphs ask for no more than they need.
func TestWeightCopies(t *testing.T) {
	for _, base := range []ggml.Type{ggml.Q8_0, ggml.BF16, ggml.F32} {
		for _, compute := range []ggml.Type{ggml.F32, ggml.BF16} {
			for _, tied := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/tied %v", base, compute, tied), func(t *testing.T) {
					m := llmtest.TinyModel(t, llmtest.TinyConfig(tied), base)
					path := filepath.Join(t.TempDir(), "checkpoint.gguf")
					runs, ops := map[model.Kept]*loraRun{}, map[model.Kept]int{}
					for kept := model.KeptNone; kept <= model.KeptFolded; kept++ {
						r := stockRun(t, m, compute, CheckpointingOn, &kept)
						runs[kept], ops[kept] = r, r.loss.graphs[0].Graph.NumNodes()
						if kept == model.KeptNone {
							_, err := r.Step(t.Context())
							require.NoError(t, err)
							require.NoError(t, r.SaveCheckpoint(path))
						} else {
							require.NoError(t, r.LoadCheckpoint(path))
						}
						require.NoError(t, r.Run(t.Context(), RunOptions{}))
						requireCopiesOf(t, r, m, base, compute, kept, tied)
					}
					for kept, r := range runs {
						for i, want := range runs[model.KeptNone].History {
							if kept != model.KeptFolded {
								require.Equal(t, want, r.History[i])
							}
							tolerance := map[ggml.Type]float64{ggml.F32: 1e-5, ggml.BF16: 1e-3}[compute]
							require.InEpsilon(t, want.Loss, r.History[i].Loss, tolerance)
							require.InEpsilon(t, want.GradNorm, r.History[i].GradNorm, 20*tolerance)
						}
					}
					require.Empty(t, runs[model.KeptBoth].Changes())
					require.Equal(t, []Difference{{ID: idFolded, Setting: idFolded, Was: "apart", Is: "in products with weights"}}, runs[model.KeptFolded].Changes())
					if base != compute {
						require.Less(t, ops[model.KeptMatrix], ops[model.KeptNone])
					}
					require.Less(t, ops[model.KeptBoth], ops[model.KeptMatrix])
					require.Less(t, ops[model.KeptFolded], ops[model.KeptBoth])
				})
			}
		}
	}
}

// requireCopiesOf demands copies of the matrices that are multiplied with, transposed ones of those that
// gradients flow back through.
func requireCopiesOf(t *testing.T, r *loraRun, m *model.Model, base, compute ggml.Type, kept model.Kept, tied bool) {
	t.Helper()
	var want int64 // elements
	for w := range m.Weights() {
		if w.NumDims() < 2 || w.Name() == "token_embd.weight" && !tied {
			continue
		}
		adapted := strings.HasSuffix(w.Name(), ".attn_q.weight")
		if kept >= model.KeptMatrix && (base != compute || adapted && kept == model.KeptFolded) {
			want += w.NumElements()
		}
		// Nothing that is trained lies before the first layer.
		before := []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}
		if kept >= model.KeptBoth && !slices.Contains(before, w.Name()) {
			want += w.NumElements()
		}
	}
	if kept == model.KeptFolded {
		for _, p := range r.a.Pairs() {
			want += p.B.NumElements()
			if p.Base != "blk.0.attn_q.weight" {
				want += p.A.NumElements()
			}
		}
	}
	require.Equal(t, compute.RowSize(want), r.copies.SizesOf(kept).Total(), "%v", kept)
	require.GreaterOrEqual(t, r.copies.Sizes().Total(), compute.RowSize(want))
}

// Each device keeps as much as fits into four fifths of its memory beside a step.
func TestWeightCopiesByMemory(t *testing.T) {
	m := tinyLoRAModel(t)
	none, both, folded := model.KeptNone, model.KeptBoth, model.KeptFolded
	r := stockRun(t, m, ggml.BF16, CheckpointingOff, &none)
	require.Empty(t, r.WeightCopies())
	need, err := r.need()
	require.NoError(t, err)
	all := stockRun(t, m, ggml.BF16, CheckpointingOff, &folded)
	step := need.Total() + r.mapped()
	matrix := all.copies.SizesOf(model.KeptMatrix).Total()
	for _, c := range []struct {
		fits int64
		want model.Kept
		says string
	}{
		{step - 1, none, ""},
		{step + matrix - 1, none, ""},
		{step + matrix, model.KeptMatrix, "weights in bf16 on CPU: "},
		{step + all.copies.SizesOf(both).Total() - 1, model.KeptMatrix, "weights in bf16 on CPU: "},
		{step + all.copies.SizesOf(both).Total(), both, "weights in bf16, also transposed, on CPU: "},
		{step + all.copies.SizesOf(folded).Total(), folded, "weights in bf16 with the adapter, also transposed, on CPU: "},
	} {
		withAvailable(t, c.fits/4*5)
		fits := stockRun(t, m, ggml.BF16, CheckpointingOff, nil)
		require.Equal(t, all.copies.SizesOf(c.want), fits.copies.SizesOf(c.want), "%v", c.want)
		if c.says == "" {
			require.Empty(t, fits.WeightCopies())
		} else {
			require.Contains(t, fits.WeightCopies(), c.says)
		}
	}
	// What multiplies weights as they are takes none.
	o := runOptions()
	require.Empty(t, autoRun(t, m, o).WeightCopies())
	o.WeightCopies = &both
	_, err = New(m, Trainables{Adapters: all.a.WithScale(1)}, all.data, o)
	require.EqualError(t, err, "the CPU's kernels multiply weights as they are, and take no copies")
}
