package train

import (
	"fmt"
	"math/rand/v2"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
)

// A shuffle defines the order of rows from a position of the run on.
type shuffle struct {
	seed  uint64
	first int  // position at which it begins, and with it an epoch
	anew  bool // drawn by Reshuffle instead of the run's seed
}

// A checkpoint stores the shuffle unless it follows from the run's seed.
const (
	keyShuffleSeed  = "training.shuffle.seed"
	keyShuffleFirst = "training.shuffle.position"
)

// Reshuffle draws a new order of the rows from the seed and the step. From here on, each row is seen
// once before any is seen again, including the rows of the current epoch. The length of the run does
// not change. Checkpoints store the order: a run resumed from a later checkpoint continues in it.
func (t *Trainer) Reshuffle() {
	seed := rand.NewPCG(t.options.Seed, uint64(t.step)).Uint64()
	t.setShuffle(shuffle{seed, t.position, true})
}

func (t *Trainer) setShuffle(s shuffle) {
	t.shuffle = s
	old := &t.shuffler
	t.shuffler = data.Shuffler{Seed: s.seed, N: old.N, Bucket: old.Bucket, Group: old.Group} // drops the cached epoch
}

// row returns the row at a position of the run, at or after the beginning of the shuffle.
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

// readShuffle reads the order from a checkpoint; by default it follows from the run's seed.
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
		return shuffle{}, fmt.Errorf("its order begins at row %d, but it is at row %d", first, position)
	}
	return shuffle{seed, int(first), true}, nil
}
