package train_test

import (
	"fmt"

	"github.com/goggml/ggml/llm/train"
)

// Two adapters on the same six samples of ten tokens: B is better on all of them, and hard samples are
// hard for both.
func ExampleCompare() {
	var a, b []train.RowEvaluation
	for i, gain := range []float64{0.10, 0.12, 0.08, 0.11, 0.09, 0.10} {
		hard := 2 + float64(i)
		a = append(a, train.RowEvaluation{Loss: 10 * hard, Weight: 10, Tokens: 10})
		b = append(b, train.RowEvaluation{Loss: 10 * (hard - gain), Weight: 10, Tokens: 10})
	}
	c := must(train.Compare(a, b, 0.95))
	fmt.Printf("%.3f nats a token, %.3f to %.3f; decided: %v\n", c.Mean, c.Low, c.High, c.Decided())
	// Output: 0.100 nats a token, 0.085 to 0.115; decided: true
}
