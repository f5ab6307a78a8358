package data

import "math/rand/v2"

// A Sampler visits all rows in each epoch, in an order that depends on the seed
// and the epoch alone.
type Sampler struct {
	Seed  uint64
	N     int // rows
	epoch int
	perm  []uint32
}

// At gives the row at a position that counts on through the epochs.
func (s *Sampler) At(position int) int {
	epoch := position / s.N
	if s.perm == nil || epoch != s.epoch {
		s.epoch = epoch
		s.perm = permutation(s.N, rand.New(rand.NewPCG(s.Seed, uint64(epoch)+1)))
	}
	return int(s.perm[position%s.N])
}

// permutation is that of [rand.Rand.Perm], in half the memory.
func permutation(n int, rng *rand.Rand) []uint32 {
	perm := make([]uint32, n)
	for i := range perm {
		perm[i] = uint32(i)
	}
	rng.Shuffle(n, func(i, j int) { perm[i], perm[j] = perm[j], perm[i] })
	return perm
}
