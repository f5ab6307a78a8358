package generate_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Texts have their grammar, alone and in a scheduler where others have none: they end where it does, also in a vocabulary without a
// token to end them.
func TestGrammar(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	g := need.Value(grammar.Parse(`root ::= " " [a-f]{2} (" " [x-z]){3} "."`))(t)
	for name, change := range map[string]func(*tokenizer.Config){
		"EOS":  nil,
		"none": func(c *tokenizer.Config) { c.EOS = tokenizer.None },
	} {
		m.Tokenizer = letters(t, change)
		s := newScheduler(t, m, infer.SessionOptions{Sequences: 3, Context: 96}, generate.SchedulerOptions{})
		alone := newSequence(t, newSession(t, m, 1))
		request := func(seed uint64, g *grammar.Grammar) generate.Request {
			return generate.Request{Prompt: "a b", Sampler: sampler(t, sample.Options{Temperature: 2, Seed: seed}), Options: generate.Options{Grammar: g, Limit: testutil.Ptr(40)}}
		}
		var all testutil.Goroutines
		for seed := range uint64(6) {
			rewind(t, alone, 0)
			tokens, stats := generate.Stream(context.Background(), m, alone, request(seed, g))
			want := textOf(need.Value(collect(tokens))(t))
			require.True(t, need.Value(g.Match(want))(t), "%s: %q", name, want)
			require.Equal(t, generate.FinishStop, stats.Finish, name)
			r, free := request(seed, g), request(seed, nil)
			all.Go(func() {
				tokens, stats := s.Stream(context.Background(), r)
				got, err := collect(tokens)
				assert.NoError(t, err, name)
				assert.Equal(t, want, textOf(got), name)
				assert.Equal(t, generate.FinishStop, stats.Finish, name)
			})
			all.Go(func() {
				tokens, _ := s.Stream(context.Background(), free)
				_, err := collect(tokens)
				assert.NoError(t, err, name)
			})
		}
		all.Wait()
	}
	tokens, _ := generate.Stream(context.Background(), m, newSequence(t, newSession(t, m, 1)), generate.Request{
		Prompt: "a", Sampler: sampler(t, sample.Options{}), Options: generate.Options{Grammar: need.Value(grammar.Parse(`root ::= "€"`))(t)},
	})
	_, err := collect(tokens)
	require.EqualError(t, err, "the grammar does not fit the vocabulary: no token can come here")
}

// Reasoning that the prompt begins is free, and the grammar begins after it.
func TestGrammarAfterReasoning(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	m.Tokenizer = letters(t, func(c *tokenizer.Config) { c.Tokens[13], c.Types[13] = "</think>", tokenizer.UserDefined })
	template := `{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}`
	g := need.Value(grammar.Parse(`root ::= "yes" | "no"`))(t)
	o := generate.ChatOptions{Template: parseTemplate(t, template), Grammar: g, Limit: testutil.Ptr(200)}
	var answers []string
	for seed := range uint64(12) {
		c := need.Value(generate.NewChat(m, newSequence(t, newSession(t, m, 1)), sampler(t, sample.Options{Temperature: 1, Seed: seed}), o))(t)
		reply, err := c.Reply(context.Background(), io.Discard, dialogue("hello"))
		require.NoError(t, err)
		if strings.Contains(reply.Content, "</think>") {
			answers = append(answers, reply.Answer)
			require.Equal(t, generate.FinishStop, reply.Finish)
		}
	}
	require.NotEmpty(t, answers)
	require.Subset(t, []string{"yes", "no"}, answers)
}
