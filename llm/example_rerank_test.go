package llm_test

import (
	"context"
	"fmt"
	"github.com/goggml/ggml/llm"
)

// Score how well texts answer a question.
func ExampleRerank() {
	scores, err := llm.Rerank(context.Background(), "reranker.gguf", llm.Options{}, "How long is delivery?", "It takes five days.", "Postage is free.")
	if err != nil {
		panic(err)
	}
	fmt.Println(len(scores), "scores")
	// Output: 2 scores
}
