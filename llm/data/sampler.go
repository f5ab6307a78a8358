package data

import "math/rand/v2"

// A Sampler visits all samples in each epoch, in an order that depends on the seed
// and the epoch alone.
type Sampler struct {
	Seed  uint64
	N     int // samples
	epoch int
	perm  []int
}

// At gives the sample at a position that counts on through the epochs.
func (s *Sampler) At(position int) int {
	epoch := position / s.N
	if s.perm == nil || epoch != s.epoch {
		s.epoch = epoch
		s.perm = rand.New(rand.NewPCG(s.Seed, uint64(epoch)+1)).Perm(s.N)
	}
	return s.perm[position%s.N]
}
