package train

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// A run can resume with more epochs, another rate, schedule and LoRAPlus: it has the steps of the new
// length, and each step uses the new schedule's rate with the moments of the checkpoint.
func TestContinueOtherwise(t *testing.T) {
	m, ctx := tinyLoRAModel(t), context.Background()
	o := runOptions()
	o.Epochs, o.Schedule = 2, Schedule{Shape: Constant, Peak: 0.01}
	before := usualRunWith(t, m, o)
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, before.Run(ctx, RunOptions{OnSave: saving(before.Trainer, path)}))
	require.Equal(t, "all 4 steps are done", before.Ended()) // 2 · 7 samples, 4 per step

	o.Epochs, o.LoRAPlus = 5, 4
	o.Schedule = Schedule{Shape: Linear, Peak: 0.002, Floor: 0.001}
	o.AdamW.Clip = 0
	after := usualRunWith(t, m, o)
	require.NoError(t, after.LoadCheckpoint(path))
	require.Equal(t, []Difference{
		{"steps", "steps", "4", "10"}, {"learning rate", "learning rate", "0.01", "0.002"}, {"final learning rate", "final learning rate", "0", "0.001"},
		{"schedule", "schedule", "constant", "linear"}, {"gradient clip", "gradient clip", "1", "0"}, {"learning rate of B over that of A", "learning rate of B over that of A", "1", "4"},
	}, after.Changes())
	require.Equal(t, 10, after.TotalSteps(), "the second epoch ended in a short step, and 21 samples follow")
	read := func(x *ggml.Tensor) []float32 {
		return need.Value(ggml.Read[float32](x))(t)
	}
	for after.Steps() < 10 {
		var old [][]float32
		for _, p := range after.opt.params {
			old = append(old, read(p.Tensor))
		}
		metrics := need.Value(after.Step(ctx))(t)
		rate := 0.001 + 0.001*float64(11-metrics.Step)/10
		require.InDelta(t, rate, metrics.LearningRate, 1e-15)
		correction1, correction2 := 1-math.Pow(0.9, float64(metrics.Step)), 1-math.Pow(0.999, float64(metrics.Step))
		for i, p := range after.opt.params {
			own := rate
			if p == after.opt.params[i/2*2+1] {
				own = 4 * rate // B is after A
			}
			now, first, second := read(p.Tensor), read(after.opt.first[i]), read(after.opt.second[i])
			for j := range now {
				move := own * float64(first[j]) / correction1 / (math.Sqrt(float64(second[j])/correction2) + 1e-8)
				require.InDelta(t, float64(old[i][j])-move, now[j], 1e-6, "%s, step %d", p.Name(), metrics.Step)
			}
		}
	}
	require.True(t, after.Done())
	require.Equal(t, before.History, after.History[:4])
}
