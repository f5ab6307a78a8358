package sample_test

import (
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/sample"
)

// Sample with usual chat settings. Equal seeds sample equal tokens.
func ExampleSampler() {
	topP := float32(0.95)
	s, err := sample.New(sample.Options{Temperature: 0.8, TopK: 40, TopP: &topP, MinP: 0.05, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	logits := []float32{-2, 9, 1, 0.5} // a vocabulary of four tokens
	token, err := s.Sample(logits)
	fmt.Println(token, err)
	// Output: 1 <nil>
}

// Penalise tokens that were recently sampled or in the prompt.
func ExampleOptions() {
	s, err := sample.New(sample.Options{PresencePenalty: 2}) // temperature 0: the most likely token
	if err != nil {
		log.Fatal(err)
	}
	s.Accept(3) // a token of the prompt
	logits := []float32{1, 2.5, 2, 4}
	for range 4 {
		token, err := s.Sample(logits)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token, " ")
	}
	s.Forget()
	token, err := s.Sample(logits)
	fmt.Println(token, err)
	// Output: 1 2 3 3 3 <nil>
}
