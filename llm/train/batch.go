package train

import (
	"iter"

	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
)

// A batchShape holds the properties of a data set that determine its batches and the shape of their graphs.
type batchShape struct {
	rows       int // per batch
	length     int // maximum tokens per row
	longestRow int // tokens of the longest row in the data
	longest    int // tokens of the longest sample
	packed     bool
	numbered   bool     // batches number their samples, for a Loss
	branched   bool     // samples of a row that begin with one prompt share it, see sharedPrompt
	teacher    *Teacher // batches have what it says; nil if none
}

func shapeOfBatches(d *data.Dataset, rows int) batchShape {
	return batchShape{rows: rows, length: d.Length, longestRow: d.LongestRow(), longest: d.Longest(), packed: d.IsPacked()}
}

// tokens returns the maximum number of tokens per batch.
func (s batchShape) tokens() int { return s.rows * bucketLengths(s.length, s.longestRow)[0] }

// batch writes rows to a batch of rows of `length` tokens. Padding is token 0 with weight 0; it comes last, where
// causal attention hides it from the rest. Packed samples have Starts, and each padding token is a sample of its own,
// which costs the least attention. Samples with predicted tokens are numbered in order.
func (s batchShape) batch(rows []data.Row, length int) (lossgraph.Batch, error) {
	n := s.rows * length
	b := lossgraph.Batch{Tokens: make([]int32, n), Targets: make([]int32, n), LossWeights: make([]float32, n)}
	if s.numbered {
		b.Samples = make([]int32, n)
	}
	if s.branched {
		b.Hidden = make([][2]int32, n)
	}
	if s.teacher != nil {
		b.Taught, b.Probs = make([]int32, n*s.teacher.TopK), make([]float32, n*(s.teacher.TopK+1))
	}
	if s.packed {
		b.Starts = make([]int32, n)
		for i := range b.Starts {
			b.Starts[i] = int32(i % length)
		}
	}
	number := int32(0)
	for i, row := range rows {
		for p := range s.places(row) {
			p.write(b, i*length, number)
			number++
			if s.teacher == nil {
				continue
			}
			said, err := s.teacher.taught(p.sample)
			if err != nil {
				return b, err
			}
			for _, token := range TrainedTokens(p.sample) {
				said = s.teacher.write(b, i*length+p.at+token, said)
			}
		}
	}
	return b, nil
}

// A place is where a sample lies in its row: from index at on, without the first `shared` tokens, which the sample
// that begins at start has too.
type place struct {
	sample            data.Sample
	start, at, shared int
}

// places iterates over the samples of a row with predicted tokens.
func (s batchShape) places(row data.Row) iter.Seq[place] {
	return func(yield func(place) bool) {
		var first place // the sample whose prompt others share
		at := 0
		for _, sample := range row {
			if sample.Predicted() == 0 {
				continue
			}
			p := place{sample: sample, start: at, at: at}
			if s.branched && first.sample.Origin == sample.Origin { // the answers of another record share hardly more than BOS
				p.shared = sharedPrompt(first.sample, sample)
			}
			if p.shared > 0 {
				p.start = first.start
			} else {
				first = p
			}
			if !yield(p) {
				return
			}
			at += sample.Predicted() - p.shared
		}
	}
}

// tokensOf returns the number of tokens that a row takes.
func (s batchShape) tokensOf(row data.Row) (n int) {
	for p := range s.places(row) {
		n += p.sample.Predicted() - p.shared
	}
	return n
}

// write writes the sample to a batch, whose row begins at index row.
func (p place) write(b lossgraph.Batch, row int, number int32) {
	for i := p.shared; i < p.sample.Predicted(); i++ {
		to := row + p.at + i - p.shared
		b.Tokens[to], b.Targets[to], b.LossWeights[to] = p.sample.Tokens[i], p.sample.Tokens[i+1], lossWeight(p.sample, i)
		if b.Samples != nil {
			b.Samples[to] = number
		}
		if b.Starts != nil {
			b.Starts[to] = int32(p.start)
		}
		if p.shared > 0 {
			b.Hidden[to] = [2]int32{int32(p.start + p.shared), int32(p.at)}
		}
	}
}

// sharedPrompt returns the number of tokens at the beginning of both samples before which nothing is trained: the
// prompt of two answers but for its last token, which predicts the first token of each.
func sharedPrompt(a, b data.Sample) int {
	n := 0
	for most := min(a.Predicted(), b.Predicted()) - 1; n < most; n++ {
		if a.Tokens[n] != b.Tokens[n] || lossWeight(a, n) != 0 || lossWeight(b, n) != 0 {
			break
		}
	}
	return n
}

// leastSaved is the share of tokens, 1/leastSaved, that sharing prompts must save: attention whose queries skip keys
// takes longer.
const leastSaved = 8

// stepShape returns the shape of the batches of steps.
func (o *Options) stepShape(a *arch.Architecture, d *data.Dataset, rows int) (batchShape, error) {
	s := shapeOfBatches(d, rows)
	s.teacher = o.Loss.Teacher
	if err := s.teacher.checkRows(o, d); err != nil {
		return s, err
	}
	if s.teacher != nil && s.teacher.Rows != nil {
		longest := min(s.length, s.teacher.Longest)
		s.longest, s.longestRow = max(s.longest, longest), max(s.longestRow, longest)
	}
	if !o.Loss.isOfSamples() {
		return s, nil
	}
	s.numbered = true
	return s.sharing(a, d)
}

// sharing returns the shape of batches that compute a prompt once which several samples of a row begin with, if that
// saves enough, and tokens of the model affect each other by attention alone; otherwise s.
func (s batchShape) sharing(a *arch.Architecture, d *data.Dataset) (batchShape, error) {
	if !s.packed || a.CheckBranched() != nil {
		return s, nil
	}
	shared, all, tokens := s, 0, 0
	shared.branched, shared.longestRow = true, 0
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return s, err
		}
		n := shared.tokensOf(row)
		shared.longestRow, all, tokens = max(shared.longestRow, n), all+row.Predicted(), tokens+n
	}
	if all-tokens < all/leastSaved || all == tokens {
		return s, nil
	}
	return shared, nil
}

// SharesPrompts reports whether steps compute a prompt once that several samples of a row begin with.
func (t *Trainer) SharesPrompts() bool { return t != nil && t.shape.branched }

// lossWeight returns the weight of predicting the token after token i of a sample.
func lossWeight(s data.Sample, i int) float32 {
	if s.LossWeights == nil {
		return 1
	}
	return s.LossWeights[i]
}

// readRows reads n rows of a data set; number maps an index to the row's number.
func readRows(d *data.Dataset, n int, number func(i int) int) ([]data.Row, error) {
	rows := make([]data.Row, n)
	for i := range rows {
		var err error
		if rows[i], err = d.Row(number(i)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
