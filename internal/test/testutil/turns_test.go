package testutil

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// The ratio compares samples of the same round, whatever else the machine does, and the first round warms up.
func TestInTurn(t *testing.T) {
	slow := []time.Duration{90, 2, 20, 6}
	calls := 0
	turns := InTurn(3, 0,
		func() time.Duration { calls++; return slow[calls-1] },
		func() time.Duration { return slow[calls-1] / 2 },
	)
	require.Equal(t, Turns{{2, 20, 6}, {1, 10, 3}}, turns)
	require.Equal(t, time.Duration(6), turns.Median(0))
	require.InDelta(t, 2, turns.Ratio(0, 1), 1e-12)
	require.InDelta(t, 0.5, turns.Ratio(1, 0), 1e-12)
}

func TestInTurnSpendsItsTime(t *testing.T) {
	turns := InTurn(1, 50, func() time.Duration { return 10 }, func() time.Duration { return 3 })
	require.Len(t, turns[0], 4)
	long := InTurn(1, 0, func() time.Duration { return longRound })
	require.Len(t, long[0], 1)
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
}

var count = NewProcess("count", func(from int, serve func(sample func() (int, error)) error) error {
	return serve(func() (int, error) { from++; return from, nil })
})

func TestProcess(t *testing.T) {
	s := need.Value(count.Start(6))(t)
	for want := 7; want < 10; want++ {
		n := need.Value(s.Sample())(t)
		require.Equal(t, want, n)
	}
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
}
