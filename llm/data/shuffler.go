package data

import (
	"math/rand/v2"
	"sync"
)

// A Shuffler visits all rows once per epoch, in an order that depends only on the seed and the epoch.
// It is safe for concurrent use.
type Shuffler struct {
	Seed uint64
	N    int // number of rows

	// Bucket returns the index, from 0, of a row's length bucket. Rows of a bucket are then visited in
	// groups of Group: positions k·Group … (k+1)·Group−1 are in one bucket, except where an epoch or a
	// bucket ends. Each group has random rows of its bucket, and the groups are in random order. nil means
	// no groups.
	Bucket func(row int) int
	Group  int

	mu    sync.Mutex
	epoch int
	perm  []uint32
}

// At returns the row at a position, counted from 0 across epochs. It panics if there are no rows.
func (s *Shuffler) At(position int) int {
	epoch := position / s.N
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.perm == nil || epoch != s.epoch {
		s.epoch = epoch
		s.perm = s.order(epoch)
	}
	return int(s.perm[position%s.N])
}

func (s *Shuffler) order(epoch int) []uint32 {
	rng := rand.New(rand.NewPCG(s.Seed, uint64(epoch)+1))
	perm := permutation(s.N, rng)
	if s.Bucket == nil || s.Group < 2 {
		return perm
	}
	// The first and last group of an epoch may be shared with the adjacent epoch.
	head := min(s.N, (s.Group-epoch*s.N%s.Group)%s.Group)
	whole := (s.N - head) / s.Group
	rows := s.byBucket(perm[head : head+whole*s.Group])
	for to, from := range permutation(whole, rng) {
		copy(perm[head+to*s.Group:][:s.Group], rows[int(from)*s.Group:])
	}
	return perm
}

// byBucket sorts rows by bucket, stably.
func (s *Shuffler) byBucket(rows []uint32) []uint32 {
	var next []int // next place for a row of each bucket
	for _, row := range rows {
		bucket := s.Bucket(int(row))
		for bucket >= len(next) {
			next = append(next, 0)
		}
		next[bucket]++
	}
	at := 0
	for bucket, n := range next {
		next[bucket], at = at, at+n
	}
	sorted := make([]uint32, len(rows))
	for _, row := range rows {
		bucket := s.Bucket(int(row))
		sorted[next[bucket]] = row
		next[bucket]++
	}
	return sorted
}

// permutation returns the result of [rand.Rand.Perm], in half the memory.
func permutation(n int, rng *rand.Rand) []uint32 {
	perm := make([]uint32, n)
	for i := range perm {
		perm[i] = uint32(i)
	}
	rng.Shuffle(n, func(i, j int) { perm[i], perm[j] = perm[j], perm[i] })
	return perm
}
