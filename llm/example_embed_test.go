package llm_test

import (
	"context"
	"fmt"
	"github.com/goggml/ggml/llm"
)

// Compare texts by their vectors; a vector has one element per dimension of the model.
func ExampleEmbed() {
	vectors, err := llm.Embed(context.Background(), "model.gguf", llm.Options{}, "Postage", "How long does delivery take?")
	if err != nil {
		panic(err)
	}
	fmt.Println(len(vectors), "vectors of", len(vectors[0]), "numbers")
	// Output: 2 vectors of 64 numbers
}
