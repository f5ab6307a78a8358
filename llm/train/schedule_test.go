package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The rate rises, reaches its peak with the last step of the warm-up, falls
// from then on, and never leaves its bounds.
func TestScheduleShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Peak: rapid.Float64Range(1e-6, 1).Draw(t, "peak"), Warmup: rapid.IntRange(0, 20).Draw(t, "warm-up"),
			Steps: rapid.IntRange(1, 60).Draw(t, "steps"),
		}
		s.Floor = s.Peak * rapid.Float64Range(0, 1).Draw(t, "floor")
		last := 0.0
		for step := 1; step <= s.Steps; step++ {
			rate := s.At(step)
			require.Greater(t, rate, -1e-12)
			require.LessOrEqual(t, rate, s.Peak*(1+1e-12))
			switch {
			case step <= s.Warmup:
				require.Greater(t, rate, last)
			case step > s.Warmup+1:
				require.LessOrEqual(t, rate, last)
			}
			last = rate
		}
		switch {
		case s.Steps == 1 && s.Warmup == 0:
			require.Equal(t, s.Peak, last)
		case s.Steps > s.Warmup:
			require.InDelta(t, s.Floor, last, 1e-9)
		}
		require.False(t, math.IsNaN(last))
	})
}
