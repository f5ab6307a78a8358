package train

import (
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
)

// makeBatch writes rows to a batch of `count` rows of `length` tokens. Padding is token 0 with weight
// 0; it comes last, where causal attention hides it from the rest. Packed samples have Starts, and
// each padding token is a sample of its own, which costs the least attention. Samples with predicted
// tokens are numbered in order.
func makeBatch(rows []data.Row, count, length int, packed bool) lossgraph.Batch {
	n := count * length
	b := lossgraph.Batch{Tokens: make([]int32, n), Targets: make([]int32, n), LossWeights: make([]float32, n), Samples: make([]int32, n)}
	if packed {
		b.Starts = make([]int32, n)
		for i := range b.Starts {
			b.Starts[i] = int32(i % length)
		}
	}
	number := int32(0)
	for i, row := range rows {
		start := 0
		for _, s := range row {
			if s.Predicted() > 0 {
				layOut(b, s, i*length+start, start, number)
				start += s.Predicted()
				number++
			}
		}
	}
	return b
}

// layOut writes a sample to the batch from token `at` on; inRow is the index of its first token in its row.
func layOut(b lossgraph.Batch, s data.Sample, at, inRow int, number int32) {
	for i := range s.Predicted() {
		b.Tokens[at+i], b.Targets[at+i], b.LossWeights[at+i] = s.Tokens[i], s.Tokens[i+1], lossWeight(s, i)
		b.Samples[at+i] = number
		if b.Starts != nil {
			b.Starts[at+i] = int32(inRow)
		}
	}
}

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
