package infer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// tinyModel returns a model with random weights.
func tinyModel() *model.Model {
	m := must(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 32, FF: 48, Layers: 1, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))
	return m
}

// Score a text, and another end of it.
func ExampleSequence() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	ctx := context.Background()
	logits := must(sequence.DecodeAll(ctx, []int32{1, 2, 3, 4, 5}))
	fmt.Println("logits of what follows", len(logits), "tokens, each of", len(logits[0]))

	must(sequence.Rewind(3))
	must(sequence.Decode(ctx, []int32{6, 7}))
	fmt.Println(sequence.Tokens())
	// Output:
	// logits of what follows 5 tokens, each of 64
	// [1 2 3 6 7]
}

// Embed a long text in steps, between which other sequences get their tokens.
func ExampleEncoding() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	sequence := must(session.NewSequence())
	ctx := context.Background()
	encoding := must(session.NewEncoding([][]int32{{1, 2, 3, 4, 5, 6, 7, 8, 9}}, infer.EmbedOptions{}))
	defer encoding.Close()
	for !must(encoding.Step(ctx, 4)) {
		must(sequence.Decode(ctx, []int32{5}))
	}
	fmt.Println(len(must(encoding.Vectors(ctx))), "vector, and beside it", sequence.Len(), "tokens")
	// Output: 1 vector, and beside it 2 tokens
}

// Continue two sequences at once, greedily. Both begin with the same tokens.
func ExampleSession_Step() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	ctx := context.Background()
	var next []infer.StepInput
	for _, prompt := range [][]int32{{1, 2, 3, 4}, {1, 2, 3, 5, 6}} {
		sequence := must(session.NewSequence())
		logits, cached, err := sequence.Prefill(ctx, prompt)
		check(err)
		fmt.Println(len(prompt)-cached, "tokens of the prompt are new")
		next = append(next, infer.StepInput{Sequence: sequence, Logits: logits})
	}
	for range 10 {
		for i := range next {
			next[i].Token = argmax(next[i].Logits)
		}
		check(session.Step(ctx, next))
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
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 3})) // texts at once
	defer session.Close()
	question := []int32{1, 2, 3, 4} // by m.Tokenizer.Encode
	texts := [][]int32{{9, 8, 7}, {1, 2, 3, 4, 5}, {30, 31}}
	vectors := must(session.Embed(context.Background(), append(texts, question), infer.EmbedOptions{Pooling: infer.PoolMean, Normalize: true}))
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

// An error names the text that it is of.
func ExampleTextError() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	_, err := session.Embed(context.Background(), [][]int32{{1, 2}, nil}, infer.EmbedOptions{})
	var of *infer.TextError
	fmt.Println(errors.As(err, &of) && of.Index == 1, err)
	// Output: true text 2: there are no tokens to decode
}

// Two sequences with different adapters, in one session and on the weights of one model.
func ExampleAdapters() {
	m := tinyModel() // or model.Load
	defer m.Close()
	adapter := must(lora.New(m, lora.Options{Rank: 2, Alpha: 4})) // or lora.Load
	defer adapter.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	adapters := must(session.NewAdapters(adapter.WithScale(1)))
	plain, adapted := must(session.NewSequence()), must(session.NewSequence())
	check(adapted.SetAdapters(adapters))
	next := []infer.StepInput{{Sequence: plain, Token: 1}, {Sequence: adapted, Token: 1}}
	check(session.Step(context.Background(), next))
	fmt.Println(slices.Equal(next[0].Logits, next[1].Logits), "before training")
	// Output: true before training
}

// A session with room for two texts of 16 tokens, whose keys and values take half the memory.
func ExampleSessionOptions() {
	m := tinyModel() // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2, Context: 16, CacheType: ggml.F16}))
	defer session.Close()
	sequence := must(session.NewSequence())
	_, err := sequence.Decode(context.Background(), make([]int32, 17))
	fmt.Println(errors.Is(err, infer.ErrContextFull), sequence.Len(), session.Free())
	// Output: true 0 1
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
