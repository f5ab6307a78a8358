package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A Noise says what dropout and NEFTune draw in a batch: equal ones draw the same.
type Noise struct {
	Seed uint64
	Step int // of the run
	// Row counts the rows of the step before the batch, so that a row draws the same
	// however those of a step are divided into batches.
	Row int
}

// What is drawn.
const (
	drawPool uint64 = iota
	drawMasks
	drawEmbeddings
)

// source is a stream of random numbers of its own for each kind of draw, row of the step
// and pair.
func (n Noise) source(draw uint64, row, pair int) *rand.ChaCha8 {
	var key [32]byte
	for i, x := range []uint64{n.Seed, uint64(n.Step), uint64(row), draw<<32 | uint64(pair)} {
		binary.LittleEndian.PutUint64(key[8*i:], x)
	}
	return rand.NewChaCha8(key)
}

// pool draws the factors of dropout: 0 with probability p, otherwise 1/(1−p).
func (n Noise) pool(values []float32, p float32) {
	source, dropped := n.source(drawPool, 0, 0), int64(math.Round(float64(p)*(1<<32)))
	kept := math.Float32bits(float32(1 / (1 - float64(p))))
	var bits uint64
	for i := range values {
		if i%2 == 0 {
			bits = source.Uint64()
		}
		below := (int64(bits&math.MaxUint32) - dropped) >> 63 // −1 or 0: no branch to mispredict
		values[i] = math.Float32frombits(kept &^ uint32(below))
		bits >>= 32
	}
}

// masks draws those of the tokens of a row, of so many in the pool.
func (n Noise) masks(drawn []int32, row, pair int, number int64) {
	source := n.source(drawMasks, n.Row+row, pair)
	for i := range drawn {
		drawn[i] = int32(source.Uint64() % uint64(number))
	}
}

// embeddings draws uniformly from ±1.
func (n Noise) embeddings(values []float32, row int) {
	source := n.source(drawEmbeddings, n.Row+row, 0)
	var bits uint64
	for i := range values {
		if i%2 == 0 {
			bits = source.Uint64()
		}
		values[i] = float32(int32(bits)) / (1 << 31)
		bits >>= 32
	}
}

// checkNoise says what is wrong with what a graph draws.
func (o TrainGraphOptions) checkNoise() error {
	switch {
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("the dropout is %v; it must be at least 0 and below 1", o.Dropout)
	case !(o.NEFTune >= 0) || math.IsInf(float64(o.NEFTune), 0):
		return fmt.Errorf("the NEFTune alpha is %v; it must be a finite number of at least 0", o.NEFTune)
	case o.Grads == nil && (o.Dropout > 0 || o.NEFTune > 0):
		return errors.New("dropout and NEFTune are of training; leave them out of a graph without Grads")
	}
	if pairs, _ := o.dropped(); o.Dropout > 0 && pairs == 0 {
		return errors.New("dropout acts on adapters of linear layers, and none is trained; leave it out")
	}
	return nil
}

// dropped counts the pairs that dropout acts on, and gives the largest number of inputs.
func (o TrainGraphOptions) dropped() (pairs int, width int64) {
	for base, list := range o.Adapters {
		for _, p := range list {
			if base == tokenEmbd || o.Grads[p.A] == nil && o.Grads[p.B] == nil {
				continue
			}
			pairs++
			width = max(width, p.A.Dim(0))
		}
	}
	return pairs, width
}

// addNoise makes the inputs of what is drawn.
func (l *LossGraph) addNoise(t *nn.Tape, o TrainGraphOptions) {
	n := int64(o.Length * o.Batch)
	l.dropoutRate, l.neftune = o.Dropout, o.NEFTune
	if o.Dropout > 0 {
		pairs, width := o.dropped()
		l.dropout = t.NewDropout(n, width, pairs)
	}
	if o.NEFTune > 0 {
		l.builder.EmbdNoise = t.C.NewTensor(ggml.F32, int64(l.m.config.Embd), n).SetName("embedding noise").SetInput()
	}
}

// writeNoise draws.
func (l *LossGraph) writeNoise(b Batch) error {
	var err error
	if d := l.dropout; d != nil {
		err = errors.Join(ggml.Write(d.Pool, l.drawPool(b.Noise)), ggml.Write(d.Drawn, l.drawMasks(b.Noise)))
	}
	if x := l.builder.EmbdNoise; x != nil {
		err = errors.Join(err, ggml.Write(x, l.drawEmbdNoise(b)))
	}
	return err
}

func (l *LossGraph) drawPool(n Noise) []float32 {
	values := make([]float32, l.dropout.Pool.NumElements())
	n.pool(values, l.dropoutRate)
	return values
}

// drawMasks gives those of all tokens for each pair in turn.
func (l *LossGraph) drawMasks(n Noise) []int32 {
	drawn := make([]int32, l.dropout.Drawn.NumElements())
	left := drawn
	for pair, a := range l.dropout.Pairs() {
		for row := range l.batch {
			n.masks(left[:l.length], row, pair, l.dropout.NumMasks(a.Dim(0)))
			left = left[l.length:]
		}
	}
	return drawn
}

// drawEmbdNoise gives the noise of all tokens.
func (l *LossGraph) drawEmbdNoise(b Batch) []float32 {
	values := make([]float32, l.builder.EmbdNoise.NumElements())
	perRow := l.length * l.m.config.Embd
	for row := range l.batch {
		b.Noise.embeddings(values[row*perRow:(row+1)*perRow], row)
	}
	l.scaleNoise(values, b)
	return values
}

// scaleNoise multiplies the noise of each token by alpha/√(L·d) (arXiv 2310.05914). L is
// the length of its sample, up to the last token that is trained: no loss depends on
// those behind, which may be padding.
func (l *LossGraph) scaleNoise(values []float32, b Batch) {
	lengths := make([]int, len(b.Tokens)) // at the first token of each sample
	start := func(i int) int {
		first := i / l.length * l.length
		if b.Starts != nil {
			first += int(b.Starts[i])
		}
		return first
	}
	for i := range b.Tokens {
		if b.Weights == nil || b.Weights[i] != 0 {
			lengths[start(i)] = i - start(i) + 1
		}
	}
	for i := range b.Tokens {
		area := float64(max(1, lengths[start(i)])) * float64(l.m.config.Embd)
		scale := l.neftune * l.m.config.EmbdNoiseScale() * float32(1/math.Sqrt(area))
		for j := range l.m.config.Embd {
			values[i*l.m.config.Embd+j] *= scale
		}
	}
}
