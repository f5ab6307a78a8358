package data_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/llm/data"
)

// Each row is in one of both, in its order, and as many are held out as were asked for.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(2, 90).Draw(t, "rows")
		fraction := rapid.Float64Range(0.001, 0.98).Draw(t, "fraction")
		var list []data.Sample
		for i := range rows {
			list = append(list, data.Sample{Tokens: []int32{int32(i), int32(i)}})
		}
		d := data.New(1, list)
		rest, held, err := d.Split(fraction)
		if err != nil {
			require.GreaterOrEqual(t, int(fraction*float64(rows)+0.5), rows)
			return
		}
		require.Equal(t, max(1, int(fraction*float64(rows)+0.5)), held.Len())
		seen := map[int32]int{}
		for _, d := range []*data.Dataset{rest, held} {
			last := int32(-1)
			for i := range d.Len() {
				row, err := d.Row(i)
				require.NoError(t, err)
				token := row[0].Tokens[0]
				require.Greater(t, token, last)
				seen[token]++
				last = token
			}
		}
		require.Len(t, seen, rows)
		require.Equal(t, rows, rest.Len()+held.Len())
	})
	_, _, err := data.New(1, []data.Sample{{Tokens: []int32{1, 2}}}).Split(0.5)
	require.EqualError(t, err, "0.5 of 1 row cannot be held out: some have to be, and some to be left; choose another fraction, or add data")
}

// Packed rows stay whole.
func TestSplitPacked(t *testing.T) {
	var list []data.Sample
	for i := range 20 {
		list = append(list, data.Sample{Tokens: []int32{int32(i), int32(i)}})
	}
	packed, err := data.New(2, list).Packed(1)
	require.NoError(t, err)
	rest, held, err := packed.Split(0.3)
	require.NoError(t, err)
	require.Equal(t, []int{7, 3, 14, 6}, []int{rest.Len(), held.Len(), rest.NumSamples(), held.NumSamples()})
	tokens := func(d *data.Dataset) (rows [][2]int32) {
		for i := range d.Len() {
			row, err := d.Row(i)
			require.NoError(t, err)
			require.Len(t, row, 2)
			rows = append(rows, [2]int32{row[0].Tokens[0], row[1].Tokens[0]})
		}
		return rows
	}
	require.ElementsMatch(t, tokens(packed), append(tokens(rest), tokens(held)...))
}
