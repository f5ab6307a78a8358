package training

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The warm-up is a number of steps or a fraction of the run, by default 3 %.
func TestWarmup(t *testing.T) {
	for _, c := range []struct {
		warmup int
		ratio  float64
		want   int
	}{{-1, -1, 6}, {5, -1, 5}, {0, -1, 0}, {-1, 0.1, 20}, {-1, 0, 0}, {5, 0.1, 20}} {
		f := OptimizerFlags{Batch: 2, GradAcc: 4, Epochs: 2, Warmup: c.warmup, WarmupRatio: c.ratio}
		require.Equal(t, c.want, f.warmup(800), c)
		f.Schedule = "constant-at-once"
		require.Zero(t, f.warmup(800), "transformers' constant has none")
	}
}
