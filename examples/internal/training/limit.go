package training

import (
	"iter"

	"github.com/goggml/ggml/llm/data"
)

// trainFlag names the training data, of which alone --max-samples takes the first.
const trainFlag = "--train-data"

// first gives so many examples, and errors before their end.
func first(n int, examples iter.Seq2[data.Example, error]) iter.Seq2[data.Example, error] {
	return func(yield func(data.Example, error) bool) {
		given := 0
		for x, err := range examples {
			if !yield(x, err) {
				return
			}
			if given++; given == n {
				return
			}
		}
	}
}
