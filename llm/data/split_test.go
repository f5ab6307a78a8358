package data_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
)

// Each row is in one part, in order, and the requested number is held out.
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
				row := need.Value(d.Row(i))(t)
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
	require.EqualError(t, err, "0.5 of 1 row cannot be held out: some must be held out, and some must remain; choose another fraction, or add data")
}

// Duplicates of a record stay together. As many rows are held out as duplicates allow; without
// duplicates SplitByRow holds out the same rows.
func TestSplitKeepsCopiesTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOfN(rapid.IntRange(0, 12), 2, 60).Draw(t, "contents")
		fraction := rapid.Float64Range(0.01, 0.9).Draw(t, "fraction")
		sizes := map[int]int{}
		var list []data.Sample
		for _, c := range contents {
			sizes[c]++
			list = append(list, data.Sample{Tokens: []int32{int32(c), 1}})
		}
		d := data.New(1, list)
		wanted := max(1, int(math.Round(fraction*float64(len(list)))))
		rest, held, err := d.Split(fraction)
		if len(sizes) == 1 && wanted < len(list) {
			require.EqualError(t, err, fmt.Sprintf("none of %d rows can be held out: all are copies of one; add data", len(list)))
		}
		if err != nil {
			require.True(t, len(sizes) == 1 || wanted >= len(list))
			return
		}
		shared := need.Value(held.Shared(rest))(t)
		require.Zero(t, shared)
		require.Equal(t, len(list), rest.Len()+held.Len())
		require.NotZero(t, rest.Len())
		require.LessOrEqual(t, held.Len(), max(wanted, slices.Min(slices.Collect(maps.Values(sizes)))))
		distinct := need.Value(d.Distinct())(t)
		require.Equal(t, len(sizes), distinct.Len())
		if distinct.Len() < 2 || fraction*float64(distinct.Len())+0.5 >= float64(distinct.Len()) {
			return
		}
		rest, held, err = distinct.Split(fraction)
		require.NoError(t, err)
		rest2, held2, err := distinct.SplitByRow(fraction)
		require.NoError(t, err)
		require.Equal(t, []string{rest.Fingerprint(), held.Fingerprint()}, []string{rest2.Fingerprint(), held2.Fingerprint()})
	})
}

// SplitByRow has the fingerprint of runs from before duplicates were kept together.
func TestSplitByRow(t *testing.T) {
	var list []data.Sample
	for i := range 12 {
		list = append(list, data.Sample{Tokens: []int32{int32(i % 5), 1}})
	}
	rest, held, err := data.New(1, list).SplitByRow(0.25)
	require.NoError(t, err)
	require.Equal(t, []string{"9439c4b9cb85e62aaf4179549260fe31", "6099c6aec42aeccaf4d5b89657d986a9"}, []string{rest.Fingerprint(), held.Fingerprint()})
}

// Packed rows stay whole.
func TestSplitPacked(t *testing.T) {
	var list []data.Sample
	for i := range 20 {
		list = append(list, data.Sample{Tokens: []int32{int32(i), int32(i)}})
	}
	packed := need.Value(data.New(2, list).Packed(1))(t)
	rest, held, err := packed.Split(0.3)
	require.NoError(t, err)
	require.Equal(t, []int{7, 3, 14, 6}, []int{rest.Len(), held.Len(), rest.NumSamples(), held.NumSamples()})
	tokens := func(d *data.Dataset) (rows [][2]int32) {
		for i := range d.Len() {
			row := need.Value(d.Row(i))(t)
			require.Len(t, row, 2)
			rows = append(rows, [2]int32{row[0].Tokens[0], row[1].Tokens[0]})
		}
		return rows
	}
	require.ElementsMatch(t, tokens(packed), append(tokens(rest), tokens(held)...))
}
