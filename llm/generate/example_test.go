package generate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

const source = `{% for m in messages %}
{{ m.role }}: {{ m.content }}
{% endfor %}
{% if add_generation_prompt %}assistant: {% endif %}`

// Hold a dialogue of two turns. The second turn computes only new tokens.
func ExampleChat() {
	m := must(tinyModel(256)) // or model.Load
	defer m.Close()
	template := must(chat.Parse("tiny.jinja", source)) // or none: the model's own
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	sampler := must(sample.New(sample.Options{Temperature: 0.8, TopK: 40}))
	limit := 8 // tokens of a reply; by default the model ends it
	assistant := must(generate.NewChat(m, sequence, sampler, generate.ChatOptions{Template: template, Limit: &limit}))
	var talk chat.Conversation
	for _, question := range []string{"Is the sky blue?", "Why?"} {
		talk.Messages = append(talk.Messages, chat.NewMessage("user", question))
		reply := must(assistant.Reply(context.Background(), io.Discard, &talk)) // or os.Stdout
		fmt.Printf("%q: part of the prompt was in the cache: %v\n", question, reply.Cached > 0)
		talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content))
	}
	// Output:
	// "Is the sky blue?": part of the prompt was in the cache: false
	// "Why?": part of the prompt was in the cache: true
}

// tinyModel has random weights and a vocabulary of single bytes.
func tinyModel(context int) (*model.Model, error) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{"a b"}), tokenizer.TrainOptions{VocabSize: 257, Pre: "gpt-2"})
	if err != nil {
		return nil, err
	}
	v, err := tokenizer.New(c)
	if err != nil {
		return nil, err
	}
	return model.New(arch.Config{
		Arch: "llama", Vocab: v.NumTokens(), Context: context, Embd: 32, FF: 48, Layers: 1, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: context, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, v, 1)
}

// Continue a prompt, greedily.
func ExampleText() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	greedy := must(sample.New(sample.Options{})) // of temperature 0
	var text bytes.Buffer                        // or os.Stdout, to see it come
	limit := 8
	stats := must(generate.Text(context.Background(), m, sequence, generate.Request{Prompt: "Once upon a time", W: &text, Sampler: greedy, Options: generate.Options{Limit: &limit}}))
	fmt.Println(stats.Prompt, "tokens of the prompt,", stats.Generated, "new ones:", text.Len() > 0)
	// Output: 16 tokens of the prompt, 8 new ones: true
}

// Continue prompts of several goroutines, which share the passes over the weights.
func ExampleScheduler() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	scheduler := must(generate.NewScheduler(m, session, generate.SchedulerOptions{}))
	defer scheduler.Close()
	limit := 4
	var all sync.WaitGroup
	for _, prompt := range []string{"a b", "b a b a", "b"} {
		all.Add(1)
		go func() {
			defer all.Done()
			greedy := must(sample.New(sample.Options{}))
			tokens, _ := scheduler.Stream(context.Background(), generate.Request{Prompt: prompt, Sampler: greedy, Options: generate.Options{Limit: &limit, IgnoreEOG: true}})
			for _, err := range tokens {
				check(err)
			}
		}()
	}
	all.Wait()
	load := scheduler.Load()
	fmt.Println(load.Requests, "requests,", load.Generated, "tokens")
	// Output: 3 requests, 12 tokens
}

// A text without tokens has no vector.
func ExampleEmptyError() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	_, err := generate.Embed(context.Background(), m, session, []string{""}, infer.EmbedOptions{})
	var empty *generate.EmptyError
	fmt.Println(errors.As(err, &empty), err)
	// Output: true text 1 is empty, and the model has no token that begins a text
}

// Continue two prompts at once, each with a sampler and a writer of its own.
func ExampleTexts() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 2}))
	defer session.Close()
	var requests []generate.Request
	limit := 4
	for i, prompt := range []string{"a b", "b a b a"} {
		sampler := must(sample.New(sample.Options{Temperature: 0.8, Seed: uint64(i)}))
		requests = append(requests, generate.Request{Prompt: prompt, W: io.Discard, Sampler: sampler, Options: generate.Options{Limit: &limit, IgnoreEOG: true}})
	}
	for i, r := range generate.Texts(context.Background(), m, session, requests) {
		fmt.Printf("%q: %d tokens and %d new ones, %v\n", requests[i].Prompt, r.Prompt, r.Generated, r.Err)
	}
	// Output:
	// "a b": 3 tokens and 4 new ones, <nil>
	// "b a b a": 7 tokens and 4 new ones, <nil>
}

// Take the tokens of a continuation one by one, with their log-probabilities, and stop when it
// says enough.
func ExampleStream() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	sampler := must(sample.New(sample.Options{Temperature: 0.8, Seed: 1}))
	tokens, stats := generate.Stream(context.Background(), m, sequence, generate.Request{
		Prompt: "Once upon a time", Sampler: sampler, Options: generate.Options{IgnoreEOG: true, LogProbs: true},
	})
	certain := true
	for token, err := range tokens {
		check(err)
		certain = certain && token.LogProb > -12 // token.ID is its number, token.Text its text
		if stats.Generated == 5 {
			break
		}
	}
	fmt.Println(certain, sequence.Len() == stats.Prompt+stats.Generated)
	// Output: true true
}

// Show a reply while it is generated. The final reply holds the text and the statistics.
func ExampleChat_Stream() {
	m := must(tinyModel(256)) // or model.Load
	defer m.Close()
	template := must(chat.Parse("tiny.jinja", source)) // or none: the model's own
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	greedy := must(sample.New(sample.Options{}))
	limit := 8
	assistant := must(generate.NewChat(m, sequence, greedy, generate.ChatOptions{Template: template, Limit: &limit}))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Is the sky blue?")}}
	tokens, reply := assistant.Stream(context.Background(), talk)
	shown := ""
	for token, err := range tokens {
		check(err)
		shown += token.Text // or fmt.Print
	}
	fmt.Println(reply.Content == shown, reply.Generated, "tokens, ended by", reply.Finish)
	// Output: true 8 tokens, ended by length
}

// A template may refuse a conversation; others can be answered.
func ExampleRenderError() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	template := must(chat.Parse("strict.jinja", `{% if messages[0].role != "user" %}{{ raise_exception("the user begins") }}{% endif %}{{ messages[0].content }}`))
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	sequence := must(session.NewSequence())
	greedy := must(sample.New(sample.Options{}))
	assistant := must(generate.NewChat(m, sequence, greedy, generate.ChatOptions{Template: template}))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("system", "Be brief.")}}
	_, err := assistant.Reply(context.Background(), io.Discard, talk)
	var refused *generate.RenderError
	fmt.Println(errors.As(err, &refused), err)
	// Output: true strict.jinja:1: the user begins
}

// Calls can be forced of tools that there are.
func ExampleCallError() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	template := must(chat.Parse("tools.jinja", `{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}`))
	session := must(infer.NewSession(m, infer.SessionOptions{}))
	defer session.Close()
	greedy := must(sample.New(sample.Options{}))
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "a b")}, Tools: []byte(`[{"type": "function", "function": {"name": "rain"}}]`)}
	o := generate.ChatOptions{Template: template, Calls: generate.CallOptions{Required: true, Name: "snow"}}
	assistant := must(generate.NewChat(m, must(session.NewSequence()), greedy, o))
	_, err := assistant.Reply(context.Background(), io.Discard, talk)
	var wrong *generate.CallError
	fmt.Println(errors.As(err, &wrong), err)
	// Output: true there is no tool "snow" to call
}

// Make vectors of texts.
func ExampleEmbed() {
	m := must(tinyModel(64)) // or model.Load
	defer m.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Sequences: 8})) // texts at once
	defer session.Close()
	vectors := must(generate.Embed(context.Background(), m, session, []string{"a b", "b a b a"}, infer.EmbedOptions{Normalize: true}))
	fmt.Println(len(vectors), "vectors of", len(vectors[0]), "numbers")
	// Output: 2 vectors of 32 numbers
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
