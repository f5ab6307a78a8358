//go:build interop

package interop

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A greedy chat gives the replies of llama-server, with templates with and without BOS, on models that add BOS
// and that do not.
func TestInteropChat(t *testing.T) {
	for _, c := range []struct {
		name, template string
		addBOS         bool
	}{
		{"ChatML", `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`, false},
		{"BOS of the template and the model", `{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] | trim + eos_token + '\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`, true},
		{"BOS of the model", `{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] | trim + '<|im_end|>' + '\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`, true},
	} {
		t.Run(c.name, func(t *testing.T) { testChat(t, chatModel(t, c.template, c.addBOS)) })
	}
}

type stockReply struct {
	Choices []struct {
		Message      struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt    int `json:"prompt_tokens"`
		Generated int `json:"completion_tokens"`
	}
}

func testChat(t *testing.T, path string) {
	const limit = 24
	server := startServer(t, path, "-c", "256", "-ctk", "f32", "-ctv", "f32")
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	session := need.Value(infer.NewSession(m, infer.SessionOptions{CacheType: ggml.F32, Threads: 1}))(t)
	defer session.Close()
	sequence := need.Value(session.NewSequence())(t)
	sampler := need.Value(sample.New(sample.Options{}))(t)
	ours := need.Value(generate.NewChat(m, sequence, sampler, generate.ChatOptions{Limit: testutil.Ptr(limit)}))(t)

	var talk chat.Conversation
	for turn, message := range []chat.Message{chat.NewMessage("system", "You are kind."), chat.NewMessage("user", "Who are you? "), chat.NewMessage("user", "Say more.")} {
		talk.Messages = append(talk.Messages, message)
		if turn == 0 {
			continue
		}
		var theirs stockReply
		require.True(t, server.post(t, "/v1/chat/completions", map[string]any{"messages": talk.Messages, "temperature": 0, "max_tokens": limit}, &theirs))
		reply := need.Value(ours.Reply(context.Background(), io.Discard, &talk))(t)
		require.NotEmpty(t, reply.Content)
		require.Equal(t, theirs.Choices[0].Message.Content, reply.Content)
		require.Equal(t, theirs.Choices[0].FinishReason, string(reply.Finish))
		require.Equal(t, theirs.Usage.Prompt, reply.Prompt)
		require.Equal(t, turn > 1, reply.Cached > 0)
		t.Logf("%d tokens, %d of them in the cache: %q (%s)", reply.Prompt, reply.Cached, reply.Content, reply.Finish)
		talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content))
	}
}

// chatModel writes a random model whose vocabulary is ASCII only, so that its texts are valid UTF-8.
func chatModel(t *testing.T, template string, addBOS bool) string {
	t.Helper()
	v := asciiVocabulary(t, addBOS)
	c := llmtest.TinyConfig(false)
	c.Vocab, c.Context, c.RoPE.TrainedCtx = v.NumTokens(), 256, 256
	made := need.Value(model.New(c, v, 7))(t)
	defer made.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	return llmtest.SaveChat(t, made, template, model.SaveOptions{Change: func(string) func([]float32) error {
		return func(values []float32) error {
			for i := range values {
				values[i] += float32(0.1 * rng.NormFloat64())
			}
			return nil
		}
	}})
}

func asciiVocabulary(t *testing.T, addBOS bool) *tokenizer.Tokenizer {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBPE, "gpt-2"))(t)
	for b := '!'; b <= '~'; b++ {
		c.Tokens = append(c.Tokens, string(b))
	}
	c.Tokens = append(c.Tokens, "Ġ", "Ċ", "Ġa", "er", "ou")
	c.Merges = []string{"Ġ a", "e r", "o u"}
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	for _, special := range []string{"<|begin|>", "<|finish|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|system|>", "<|assistant|>"} {
		c.Tokens, c.Types = append(c.Tokens, special), append(c.Types, tokenizer.Control)
	}
	c.BOS = tokenizer.ID(slices.Index(c.Tokens, "<|begin|>"))
	c.EOS = tokenizer.ID(slices.Index(c.Tokens, "<|finish|>"))
	c.AddBOS = addBOS
	return need.Value(tokenizer.New(c))(t)
}
