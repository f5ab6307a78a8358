package train

import (
	"fmt"
	"math/rand/v2"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
)

// A shuffle is the order in which the rows are seen from a position of the run on.
type shuffle struct {
	seed  uint64
	first int  // rows that were seen before it; its epochs begin here
	anew  bool // drawn by Reshuffle, not by the seed of the run
}

// A checkpoint has the shuffle if it differs from the one that the run's seed gives.
const (
	keyShuffleSeed  = "training.shuffle.seed"
	keyShuffleFirst = "training.shuffle.position"
)

// Reshuffle draws the order of the rows anew, from the seed and the step: from here on each row is
// seen once before any is seen again, including the rows of the epoch that ends here. The length of
// the run stays. Checkpoints hold the order: a run that resumes from a later checkpoint continues
// in it.
func (t *Trainer) Reshuffle() {
	seed := rand.NewPCG(t.options.Seed, uint64(t.step)).Uint64()
	t.setShuffle(shuffle{seed, t.position, true})
}

func (t *Trainer) setShuffle(s shuffle) {
	t.shuffle = s
	old := &t.shuffler
	t.shuffler = data.Shuffler{Seed: s.seed, N: old.N, Bucket: old.Bucket, Group: old.Group} // without the order of an epoch
}

// row is the row at a position of the run, which is not before the shuffle.
func (t *Trainer) row(position int) int { return t.shuffler.At(position - t.shuffle.first) }

func (s shuffle) write(g *ggml.GGUF) error {
	if !s.anew {
		return nil
	}
	if err := g.Set(keyShuffleSeed, s.seed); err != nil {
		return err
	}
	return g.Set(keyShuffleFirst, uint64(s.first))
}

// readShuffle reads the order of a checkpoint, by default the order that the run's seed gives.
func (t *Trainer) readShuffle(g *ggml.GGUF, position int) (shuffle, error) {
	if _, ok := g.Value(keyShuffleSeed); !ok {
		return shuffle{seed: t.options.Seed}, nil
	}
	seed, err := ggml.GGUFValue[uint64](g, keyShuffleSeed)
	if err != nil {
		return shuffle{}, err
	}
	first, err := ggml.GGUFValue[uint64](g, keyShuffleFirst)
	if err != nil {
		return shuffle{}, err
	}
	if first > uint64(position) {
		return shuffle{}, fmt.Errorf("its order begins at row %d, and it is at row %d", first, position)
	}
	return shuffle{seed, int(first), true}, nil
}
