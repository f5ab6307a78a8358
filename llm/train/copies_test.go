package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/weightcache"
)

// stockRun returns a run with stock ops, with this tier of copies; nil means as many as fit.
func stockRun(t *testing.T, m *model.Model, compute ggml.Type, rank int, c Checkpointing, kept *weightcache.Tier) *loraRun {
	t.Helper()
	e := need.Value(device.New(device.Options{Threads: 1, OpSet: device.Stock}))(t)
	t.Cleanup(func() { e.Close() })
	o := runOptions()
	o.Engine, o.Checkpointing, o.ComputeType, o.WeightCopies = e, c, compute, kept
	return newLoRARun(t, m, data.New(24, randomSamples(7, 24)), o, lora.Options{Rank: rank, Alpha: 4, Targets: []string{"attn_q"}})
}

// Copies of weights save work and do not change results, also if a run resumes with other copies;
// folding adapters into them changes only rounding. Graphs request only what they need.
func TestWeightCopies(t *testing.T) {
	for _, base := range []ggml.Type{ggml.Q8_0, ggml.BF16, ggml.F32} {
		for _, compute := range []ggml.Type{ggml.F32, ggml.BF16} {
			for _, rank := range []int{2, 8} {
				t.Run(fmt.Sprintf("%v/%v/%d", base, compute, rank), func(t *testing.T) {
					if base != ggml.Q8_0 {
						need.Time(t, "one will do")
					}
					tied := rank == 2
					m := llmtest.TinyModel(t, llmtest.TinyConfig(tied), base)
					path := filepath.Join(t.TempDir(), "checkpoint.gguf")
					runs, ops := map[weightcache.Tier]*loraRun{}, map[weightcache.Tier]int{}
					for kept := weightcache.None; kept <= weightcache.All; kept++ {
						r := stockRun(t, m, compute, rank, CheckpointingOn, &kept)
						runs[kept], ops[kept] = r, r.loss.graphs[0].Graph.NumNodes()
						if kept == weightcache.None {
							_, err := r.Step(t.Context())
							require.NoError(t, err)
							require.NoError(t, r.SaveCheckpoint(path))
						} else {
							require.NoError(t, r.LoadCheckpoint(path))
							require.Equal(t, []Difference{{ID: SettingWeightCopies, Setting: "weight copies", Was: "none", Is: kept.String()}}, r.Changes())
						}
						require.NoError(t, r.Run(t.Context(), RunOptions{}))
						requireCopiesOf(t, r, m, base, compute, kept, tied, rank == 8)
					}
					tolerance := map[ggml.Type]float64{ggml.F32: 1e-5, ggml.BF16: 1e-3}[compute]
					for _, r := range runs {
						for i, want := range runs[weightcache.None].History {
							if rank == 2 {
								require.Equal(t, want, r.History[i])
							}
							require.InEpsilon(t, want.Loss, r.History[i].Loss, tolerance)
							require.InEpsilon(t, want.GradNorm, r.History[i].GradNorm, 20*tolerance)
						}
					}
					fewer := func(less, more weightcache.Tier) { require.Less(t, ops[less], ops[more], "%v than %v", less, more) }
					fewer(weightcache.Both, weightcache.Matrix)
					if base != compute {
						fewer(weightcache.Matrix, weightcache.None)
					} else if rank == 8 {
						fewer(weightcache.All, weightcache.Both)
					}
				})
			}
		}
	}
}

// requireCopiesOf checks that there are copies of the matrices that are multiplied, transposed copies
// of matrices with a backward pass, and folded adapters if requested.
func requireCopiesOf(t *testing.T, r *loraRun, m *model.Model, base, compute ggml.Type, kept weightcache.Tier, tied, folds bool) {
	t.Helper()
	var want int64 // elements
	for w := range m.Weights() {
		if w.NumDims() < 2 || w.Name() == "token_embd.weight" && !tied {
			continue
		}
		var a, b int64
		for _, p := range r.a.Pairs() {
			if p.Base == w.Name() && folds {
				a, b = p.A.NumElements(), p.B.NumElements()
			}
		}
		if kept >= weightcache.Matrix && base != compute || kept == weightcache.All && b > 0 {
			want += w.NumElements() + b
		}
		// These pass on no gradient: nothing before them is trained.
		before := []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}
		if kept >= weightcache.Both && !slices.Contains(before, w.Name()) {
			want += w.NumElements() + a
		}
	}
	require.Equal(t, compute.RowSize(want), r.copies.SizesOf(kept).Total(), "%v", kept)
	require.GreaterOrEqual(t, r.copies.Sizes().Total(), compute.RowSize(want))
}

// Each device holds the copies that fit into four fifths of its memory beside a step.
func TestWeightCopiesByMemory(t *testing.T) {
	m := tinyLoRAModel(t)
	none, both := weightcache.None, weightcache.Both
	r := stockRun(t, m, ggml.BF16, 8, CheckpointingOff, &none)
	require.Empty(t, r.WeightCopies())
	need := need.Value(r.need())(t)
	all := stockRun(t, m, ggml.BF16, 8, CheckpointingOff, &both)
	step := need.Total() + r.mapped()
	matrix := all.copies.SizesOf(weightcache.Matrix).Total()
	for _, c := range []struct {
		fits int64
		want weightcache.Tier
		says string
	}{
		{step - 1, none, ""},
		{step + matrix - 1, none, ""},
		{step + matrix, weightcache.Matrix, "weights in bf16 on CPU: "},
		{step + all.copies.SizesOf(both).Total() - 1, weightcache.Matrix, "weights in bf16 on CPU: "},
		{step + all.copies.SizesOf(both).Total(), both, "weights in bf16, also transposed, on CPU: "},
	} {
		withAvailable(t, c.fits/4*5)
		fits := stockRun(t, m, ggml.BF16, 8, CheckpointingOff, nil)
		require.Equal(t, all.copies.SizesOf(c.want), fits.copies.SizesOf(c.want), "%v", c.want)
		if c.says == "" {
			require.Empty(t, fits.WeightCopies())
		} else {
			require.Contains(t, fits.WeightCopies(), c.says)
		}
	}
	// A resumed run has at most the copies that it had, and rounds the same.
	withAvailable(t, plenty)
	little, more := weightcache.Matrix, stockRun(t, m, ggml.BF16, 8, CheckpointingOff, nil)
	before := stockRun(t, m, ggml.BF16, 8, CheckpointingOff, &little)
	_, err := before.Step(t.Context())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "checkpoint.gguf")
	require.NoError(t, before.SaveCheckpoint(path))
	require.NoError(t, more.LoadCheckpoint(path))
	require.Equal(t, []weightcache.Tier{little}, more.copies.Tiers())
	require.NoError(t, before.Run(t.Context(), RunOptions{}))
	require.NoError(t, more.Run(t.Context(), RunOptions{}))
	require.Equal(t, before.History, more.History)

	// The CPU's kernels multiply weights as they are, and need no copies.
	o := runOptions()
	require.Empty(t, autoRun(t, m, o).WeightCopies())
	o.WeightCopies = &both
	_, err = New(m, Trainables{Adapters: all.a.WithScale(1)}, all.data, o)
	require.EqualError(t, err, "the CPU's kernels multiply the weights directly and use no copies")
}

// Each of several devices holds the copies that fit, and the results are the same.
func TestWeightCopiesOverDevices(t *testing.T) {
	need.Time(t, "trains many times")
	server := need.Value(ggml.AddRPCServer(optest.StartRPCServerWith(t, optest.ServerOptions{Plain: true}).Endpoint))(t)
	defer server.Unload()
	inLayers := func(layer int, _ layout.Kind) int { return max(0, -layer) } // the rest on the CPU
	layout := layout.Layout{Devices: []*ggml.Device{server.Devices()[0]}, Of: inLayers}
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, tinyLoRAModel(t).Save(path, model.SaveOptions{}))
	m := need.Value(model.Load(path, model.LoadOptions{Layout: layout}))(t)
	defer m.Close()
	o := runOptions()
	o.Checkpointing, o.ComputeType = CheckpointingOff, ggml.BF16
	var first []StepMetrics
	for _, c := range []struct {
		available []int64
		kept      []weightcache.Tier
	}{
		{[]int64{0, 0}, []weightcache.Tier{weightcache.None, weightcache.None}},
		{[]int64{plenty, 0}, []weightcache.Tier{weightcache.All, weightcache.None}},
		{[]int64{0, plenty}, []weightcache.Tier{weightcache.None, weightcache.None}}, // the CPU's kernels need none
		{[]int64{plenty, plenty}, []weightcache.Tier{weightcache.All, weightcache.None}},
	} {
		withAvailable(t, c.available...)
		r := newLoRARun(t, m, data.New(24, randomSamples(7, 24)), o, lora.Options{Rank: 8, Alpha: 4, Targets: []string{lora.AllLinear}})
		require.Equal(t, c.kept, r.copies.Tiers())
		for i, size := range r.copies.Sizes() {
			require.Equal(t, c.kept[i] != weightcache.None, size > 0)
		}
		require.NoError(t, r.Run(t.Context(), RunOptions{}), "%v", c.kept)
		if first == nil {
			first = r.History
		}
		requireAlikeSteps(t, first, r.History, 1e-3, 0.02)
	}
}
