package data

import (
	"math/rand/v2"
	"sync"
)

// A Shuffler visits all rows in each epoch, in an order that depends on the seed
// and the epoch alone. It is safe for concurrent use.
type Shuffler struct {
	Seed uint64
	N    int // rows

	// Bucket is the number, from 0, of the bucket of lengths that a row is in. With it, rows
	// of one bucket are visited in groups of Group: positions k·Group … (k+1)·Group−1 are
	// of one bucket, but where an epoch or a bucket ends. Each group has random rows
	// of its bucket, and the groups are in random order. nil: single rows are.
	Bucket func(row int) int
	Group  int

	mu    sync.Mutex
	epoch int
	perm  []uint32
}

// At gives the row at a position, from 0, that counts on through the epochs. It panics where
// there are no rows.
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
	// The first and the last group of an epoch may be shared with another epoch.
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
	var next []int // where the next row of a bucket goes
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
