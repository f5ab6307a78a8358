package infer_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// tinyModel returns a model with random weights.
func tinyModel() *model.Model {
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 32, FF: 48, Layers: 1, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Score a text, and another end of it.
func ExampleSequence() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session, err := infer.NewSession(m, infer.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sequence, err := session.NewSequence()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	logits, err := sequence.DecodeAll(ctx, []int32{1, 2, 3, 4, 5})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("logits of what follows", len(logits), "tokens, each of", len(logits[0]))

	if _, err := sequence.Rewind(3); err != nil {
		log.Fatal(err)
	}
	if _, err := sequence.Decode(ctx, []int32{6, 7}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sequence.Tokens())
	// Output:
	// logits of what follows 5 tokens, each of 64
	// [1 2 3 6 7]
}

// Continue two sequences at once, greedily. Both begin with the same tokens.
func ExampleSession_Step() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session, err := infer.NewSession(m, infer.SessionOptions{Sequences: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	ctx := context.Background()
	var next []infer.StepInput
	for _, prompt := range [][]int32{{1, 2, 3, 4}, {1, 2, 3, 5, 6}} {
		sequence, err := session.NewSequence()
		if err != nil {
			log.Fatal(err)
		}
		logits, cached, err := sequence.Prefill(ctx, prompt)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(prompt)-cached, "tokens of the prompt are new")
		next = append(next, infer.StepInput{Sequence: sequence, Logits: logits})
	}
	for range 10 {
		for i := range next {
			next[i].Token = argmax(next[i].Logits)
		}
		if err := session.Step(ctx, next); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(next[0].Sequence.Len(), "and", next[1].Sequence.Len(), "tokens")
	// Output:
	// 4 tokens of the prompt are new
	// 2 tokens of the prompt are new
	// 14 and 15 tokens
}

// Find the text that is most like a question, by the cosine of their embeddings.
func ExampleSession_Embed() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session, err := infer.NewSession(m, infer.SessionOptions{Sequences: 3}) // texts at once
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	question := []int32{1, 2, 3, 4} // by m.Tokenizer.Encode
	texts := [][]int32{{9, 8, 7}, {1, 2, 3, 4, 5}, {30, 31}}
	vectors, err := session.Embed(context.Background(), append(texts, question), infer.EmbedOptions{Pooling: infer.PoolMean, Normalize: true})
	if err != nil {
		log.Fatal(err)
	}
	best, most := 0, float32(-1)
	for i, v := range vectors[:len(texts)] {
		var cosine float32
		for j := range v {
			cosine += v[j] * vectors[len(texts)][j]
		}
		if cosine > most {
			best, most = i, cosine
		}
	}
	fmt.Println("text", best, "of vectors with", len(vectors[best]), "numbers")
	// Output: text 1 of vectors with 32 numbers
}

// A session with room for two texts of 16 tokens, whose keys and values take half the memory.
func ExampleSessionOptions() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session, err := infer.NewSession(m, infer.SessionOptions{Sequences: 2, Context: 16, CacheType: ggml.F16})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sequence, err := session.NewSequence()
	if err != nil {
		log.Fatal(err)
	}
	_, err = sequence.Decode(context.Background(), make([]int32, 17))
	fmt.Println(errors.Is(err, infer.ErrContextFull), sequence.Len(), session.Free())
	// Output: true 0 1
}
