package data

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

// ofLengths returns samples with the given numbers of predicted tokens; the first token is the
// sample's index.
func ofLengths(length int, lengths ...int) *Dataset {
	var samples []Sample
	for i, n := range lengths {
		tokens := make([]int32, n+1)
		tokens[0] = int32(i)
		samples = append(samples, Sample{Tokens: tokens})
	}
	return New(length, samples)
}

func rowLengths(t require.TestingT, d *Dataset) [][]int {
	var rows [][]int
	for i := range d.Len() {
		row := need.Value(d.Row(i))(t)
		require.Equal(t, row.Predicted(), d.Predicted(i))
		var lengths []int
		for _, s := range row {
			lengths = append(lengths, s.Predicted())
		}
		rows = append(rows, lengths)
	}
	return rows
}

// naiveBestFit searches all rows for each sample.
func naiveBestFit(length int, lengths []int) (rows int) {
	slices.SortFunc(lengths, func(a, b int) int { return cmp.Compare(b, a) })
	var spaces []int
	for _, n := range lengths {
		best := -1
		for i, space := range spaces {
			if space >= n && (best < 0 || space < spaces[best]) {
				best = i
			}
		}
		if best < 0 {
			best, spaces = len(spaces), append(spaces, length)
		}
		spaces[best] -= n
	}
	return len(spaces)
}

func TestPacked(t *testing.T) {
	d := need.Value(ofLengths(10, 3, 7, 10, 2, 5, 4, 1, 0).Packed(1))(t)
	require.Equal(t, [][]int{{10}, {7, 3}, {5, 4, 1}, {2}}, rowLengths(t, d))
	require.True(t, d.IsPacked())
	require.Equal(t, 7, d.NumSamples())
	require.Equal(t, [][]int{{10}, {5, 4, 1}}, rowLengths(t, d.Limit(2)))
	require.Equal(t, 4, d.Limit(2).NumSamples())
}

// Each sample is in one row, no row is too long, and there are as few rows as with the naive
// algorithm.
func TestPackedRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 5000).Draw(t, "length")
		lengths := rapid.SliceOfN(rapid.IntRange(1, min(length, rapid.IntRange(1, 5000).Draw(t, "longest"))), 1, 60).Draw(t, "lengths")
		d := ofLengths(length, lengths...)
		seed := rapid.Uint64().Draw(t, "seed")
		p := need.Value(d.Packed(seed))(t)
		require.NoError(t, p.Check(len(lengths)))
		var numbers []int
		for i := range p.Len() {
			row := need.Value(p.Row(i))(t)
			require.LessOrEqual(t, row.Predicted(), length)
			for _, s := range row {
				require.Equal(t, lengths[s.Tokens[0]], s.Predicted())
				numbers = append(numbers, int(s.Tokens[0]))
			}
		}
		slices.Sort(numbers)
		for i, n := range numbers {
			require.Equal(t, i, n)
		}
		require.Len(t, numbers, len(lengths))
		require.Equal(t, naiveBestFit(length, slices.Clone(lengths)), p.Len())

		again := need.Value(d.Packed(seed))(t)
		require.Equal(t, rowLengths(t, p), rowLengths(t, again))
		require.Equal(t, p.Fingerprint(), again.Fingerprint())
	})
}

// The seed decides which samples share a row, and changes the fingerprint.
func TestPackingSeeds(t *testing.T) {
	lengths := make([]int, 60)
	for i := range lengths {
		lengths[i] = 1 + i%3
	}
	d := ofLengths(6, lengths...)
	seen := map[string]bool{d.Fingerprint(): true}
	for seed := range uint64(4) {
		p := need.Value(d.Packed(seed))(t)
		seen[p.Fingerprint()] = true
	}
	require.Len(t, seen, 5)
}

// Samples of a row stay together, in their order.
func TestPackedPairs(t *testing.T) {
	var rows []Row
	for i := range 9 {
		var row Row
		for side := range 2 {
			row = append(row, Sample{Tokens: make([]int32, 2+i%4+side), Origin: Origin{Line: i + 1, Token: side}})
		}
		rows = append(rows, row)
	}
	packed := need.Value(need.Value(NewRows(20, rows))(t).Packed(3))(t)
	require.Less(t, packed.Len(), 6)
	seen := map[int]bool{}
	for i := range packed.Len() {
		row := need.Value(packed.Row(i))(t)
		require.LessOrEqual(t, row.Predicted(), 20)
		for k := 0; k < len(row); k += 2 {
			line := row[k].Origin.Line
			require.Equal(t, rows[line-1], row[k:k+2])
			require.False(t, seen[line])
			seen[line] = true
		}
	}
	require.Len(t, seen, 9)
}

func TestPackedErrors(t *testing.T) {
	var err error
	for _, d := range []*Dataset{nil, {Length: 4}, ofLengths(4, 0, 0)} {
		_, err = d.Packed(0)
		require.EqualError(t, err, "the data set has no samples to pack")
	}
	_, err = ofLengths(4, 1, 5).Packed(0)
	require.EqualError(t, err, "sample 1 of the data set: it has 6 tokens; at most 5 fit")
}

func TestNumberSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 63, 64, 65, 4096, 4097, 300_000}).Draw(t, "size")
		s, plain := newNumberSet(size), map[int]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, size-1).Draw(t, "number")
			if rapid.Bool().Draw(t, "add") {
				s.add(n)
				plain[n] = true
			} else {
				s.remove(n)
				delete(plain, n)
			}
			require.Equal(t, plain[n], s.has(n))
			from := rapid.IntRange(0, size-1).Draw(t, "from")
			want := -1
			for m := range plain {
				if m >= from && (want < 0 || m < want) {
					want = m
				}
			}
			got, found := s.next(from)
			require.Equal(t, want >= 0, found)
			if found {
				require.Equal(t, want, got)
			}
		}
	})
}

// Packing many samples is fast, whatever their lengths.
func TestPackingManySamples(t *testing.T) {
	need.Time(t, "many samples")
	rng := rand.New(rand.NewPCG(1, 1))
	tokens := make([]int32, 1025)
	samples := make([]Sample, 200_000)
	all := 0
	for i := range samples {
		n := 1 + int(1023*rng.Float64()*rng.Float64())
		samples[i] = Sample{Tokens: tokens[:n+1]}
		all += n
	}
	start := time.Now()
	p := need.Value(New(1024, samples).Packed(1))(t)
	took := time.Since(start)
	fill := float64(all) / float64(p.Len()*1024)
	t.Logf("%v, rows are full to %.2f %%", took, 100*fill)
	require.Greater(t, fill, 0.999)
	require.Less(t, took, 20*time.Second, "by a search through all rows it would be minutes")
}
