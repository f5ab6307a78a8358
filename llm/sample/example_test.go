package sample_test

import (
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/sample"
)

// Draw as chats usually do. Equal seeds draw equal tokens.
func ExampleSampler() {
	topP := float32(0.95)
	s, err := sample.New(sample.Options{Temperature: 0.8, TopK: 40, TopP: &topP, MinP: 0.05, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	logits := []float32{-2, 9, 1, 0.5} // of a vocabulary of four tokens
	token, err := s.Sample(logits)
	fmt.Println(token, err)
	// Output: 1 <nil>
}

// A penalty makes a token unlikely that has just been drawn, or was in the prompt.
func ExampleOptions() {
	s, err := sample.New(sample.Options{PresencePenalty: 2}) // and a temperature of 0: the likeliest
	if err != nil {
		log.Fatal(err)
	}
	s.Accept(3) // of a prompt
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
