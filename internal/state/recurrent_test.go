package state

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// Snapshots cover all of a long sequence, and are dense at its end.
func TestRecurrentSnapshots(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	o := Options{NewTensor: func(typ ggml.Type, shape ...int64) *ggml.Tensor { return c.NewTensor(typ, shape...) }, Slots: 1, Length: 4096, Batch: 1}
	r := need.Value(NewRecurrent(o, 4, 8))(t)
	_, err := NewRecurrent(o, 4, 1)
	require.EqualError(t, err, "a recurrent state of 1 vectors of width 4 in a slot is impossible; at least two are needed")
	_, err = NewRecurrent(Options{}, 4, 8)
	require.Error(t, err)
	for end := 1; end <= 4096; end++ {
		s := r.slots[0]
		if next := s.next(); end > 1 {
			require.NotEqual(t, s.current, next, "a pass overwrites what it reads")
		}
		require.NoError(t, r.Commit(0, end))
		if end < 16 {
			continue
		}
		ends := slices.Sorted(slices.Values(r.slots[0].ends))
		require.Equal(t, end, ends[len(ends)-1])
		require.GreaterOrEqual(t, ends[len(ends)-2], end-4, ends)
		require.Positive(t, ends[0])
		for i := range ends[1:] {
			require.LessOrEqual(t, ends[i+1]-ends[i], (end-ends[i])*9/10+2, ends)
		}
	}
	at := need.Value(r.Rewind(0, 4000))(t)
	require.LessOrEqual(t, at, 4000)
	require.Greater(t, at, 3000)
	require.False(t, slices.ContainsFunc(r.slots[0].ends, func(end int) bool { return end > at }))
	at = need.Value(r.Rewind(0, 0))(t)
	require.Zero(t, at)
}
