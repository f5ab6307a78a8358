package nn

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/goggml/ggml"
)

// A Noise identifies the random numbers of dropout and NEFTune in a batch: equal ones draw the
// same.
type Noise struct {
	Seed uint64
	Step int // of the run
	// Rows are the ids of the batch's rows in the step, by which they draw, so that a row draws the
	// same however the step's rows are divided into batches or among processes. nil numbers them
	// from 0.
	Rows []int
}

// id returns the id of a row of the batch.
func (n Noise) id(row int) int {
	if n.Rows == nil {
		return row
	}
	return n.Rows[row]
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

// masks draws the masks of a row's tokens, from so many in the pool.
func (n Noise) masks(drawn []int32, row, pair int, number int64) {
	source := n.source(drawMasks, n.id(row), pair)
	for i := range drawn {
		drawn[i] = int32(source.Uint64() % uint64(number))
	}
}

// uniform draws from ±1.
func (n Noise) uniform(values []float32, row int) {
	source := n.source(drawEmbeddings, n.id(row), 0)
	var bits uint64
	for i := range values {
		if i%2 == 0 {
			bits = source.Uint64()
		}
		values[i] = float32(int32(bits)) / (1 << 31)
		bits >>= 32
	}
}

// AddNoise adds to embeddings x [d, n] what NEFTune does (arXiv 2310.05914): uniform noise of
// ±alpha/√(L·d), times scale. L is the length of a sample, up to the last token that is
// trained: no loss depends on those behind, which may be padding.
func (t *Tape) AddNoise(x *Value, alpha, scale float32) *Value {
	width := int(x.T.Dim(0))
	return t.Add(x, Input(Declare(t.Inputs, "embedding noise", ggml.F32, x.T.Shape(), func(f *Feed, values []float32) {
		perRow := f.Length() * width
		for row := range f.Rows {
			f.Noise.uniform(values[row*perRow:(row+1)*perRow], row)
		}
		for i, length := range f.trainedLengths() {
			area := float64(max(1, length)) * float64(width)
			factor := alpha * scale * float32(1/math.Sqrt(area))
			for j := range width {
				values[i*width+j] *= factor
			}
		}
	})))
}

// trainedLengths gives for each token the length of its sample, up to the last token that is trained.
func (f *Feed) trainedLengths() []int {
	lengths, n := make([]int, len(f.Tokens)), f.Length()
	start := func(i int) int { return i/n*n + int(f.Starts[i]) }
	for i := range lengths {
		if f.Weights[i] != 0 {
			lengths[start(i)] = i - start(i) + 1
		}
	}
	for i := range lengths {
		lengths[i] = lengths[start(i)]
	}
	return lengths
}
