package data

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawShuffler returns a constructor of equal shufflers.
func drawShuffler(t *rapid.T) func() *Shuffler {
	n, seed := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.Uint64().Draw(t, "seed")
	group, buckets := rapid.IntRange(0, 6).Draw(t, "group"), rapid.IntRange(0, 4).Draw(t, "buckets")
	return func() *Shuffler {
		s := &Shuffler{Seed: seed, N: n, Group: group}
		if buckets > 0 {
			s.Bucket = func(row int) int { return row * row % buckets }
		}
		return s
	}
}

// Each epoch visits every row once. Its order depends only on the seed and the epoch, not on earlier
// calls.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shuffler := drawShuffler(t)
		o := shuffler()
		n := o.N
		var whole []int
		for epoch := range 3 {
			var visited []int
			for i := range n {
				visited = append(visited, o.At(epoch*n+i))
			}
			whole = append(whole, visited...)
			slices.Sort(visited)
			for i, v := range visited {
				require.Equal(t, i, v)
			}
		}
		// Call another shuffler in between.
		other := shuffler()
		for _, position := range rapid.SliceOfN(rapid.IntRange(0, 3*n-1), 1, 20).Draw(t, "positions") {
			require.Equal(t, whole[position], other.At(position))
		}
	})
}

func TestOrdersDiffer(t *testing.T) {
	for _, group := range []int{0, 5} {
		seen := map[string]bool{}
		for seed := range uint64(4) {
			o := Shuffler{Seed: seed, N: 50, Group: group, Bucket: func(row int) int { return row % 3 }}
			for epoch := range 4 {
				var visited []int
				for i := range 50 {
					visited = append(visited, o.At(epoch*50+i))
				}
				seen[fmt.Sprint(visited)] = true
			}
		}
		require.Len(t, seen, 16)
	}
}

// Each group is in one bucket, except where an epoch or a bucket ends, wherever in a group epochs
// begin.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const buckets, epochs = 3, 4
		n, group := rapid.IntRange(20, 300).Draw(t, "rows"), rapid.IntRange(2, 9).Draw(t, "group")
		bucket := func(row int) int { return row % buckets }
		s := Shuffler{Seed: rapid.Uint64().Draw(t, "seed"), N: n, Bucket: bucket, Group: group}
		mixed, order := 0, []int{}
		for from := 0; from+group <= epochs*n; from += group {
			of := map[int]bool{}
			for i := range group {
				b := bucket(s.At(from + i))
				of[b] = true
				order = append(order, b)
			}
			if len(of) > 1 {
				mixed++
			}
		}
		require.LessOrEqual(t, mixed, epochs*(buckets-1)+epochs)
		if n >= 10*group*buckets {
			require.False(t, slices.IsSorted(order[:n/2]), "groups are shuffled")
		}
	})
}
