//go:build interop

package interop

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// TestInteropChatTokens compares training tokens with the tokens that stock llama-server makes of a
// conversation, on a model with the same template, if both render the same text.
func TestInteropChatTokens(t *testing.T) {
	templates := chattest.Templates(t)
	talks := chatConversations(t)
	texts, equal, withEqual := 0, 0, 0
	for i, path := range templates {
		source := need.Value(os.ReadFile(path))(t)
		file := templateModel(t, string(source), talks, i%2 == 0)
		server := startServer(t, file, "--no-prefill-assistant", "-c", "64")
		n, same := compareTokens(t, file, server, talks)
		server.stop(t)
		t.Logf("%-40s %d of %d texts are the server's own, and their tokens equal", filepath.Base(path), same, n)
		texts, equal, withEqual = texts+n, equal+same, withEqual+min(same, 1)
	}
	t.Logf("%d templates, %d of them with equal texts: %d of %d", len(templates), withEqual, equal, texts)
	require.Greater(t, len(templates), 40)
	require.Greater(t, withEqual, 40)
}

// compareTokens returns how many conversations the template accepts, for how many the server renders the same
// text, and for how many of these it has the same tokens.
func compareTokens(t *testing.T, file string, server *stockServer, talks []chattest.Conversation) (texts, same int) {
	g := need.Value(ggml.OpenGGUF(file))(t)
	defer g.Close()
	tok := need.Value(tokenizer.FromMetadata(g))(t)
	encoder := need.Value(data.NewEncoder(tok, data.EncoderOptions{Now: time.Now(), TrainOn: chat.All}))(t)
	bos := tok.TokenText(tok.BOS())
	for _, talk := range talks {
		x := data.Example{Format: data.Messages, Conversation: talk.Conversation}
		ours, err := encoder.Render(x)
		if err != nil {
			continue
		}
		texts++
		theirs, ok := server.applyTemplate(t, talk.Source)
		// The server leaves a leading BOS to the tokenizer if the tokenizer adds one.
		if !ok || ours.Text != theirs && !(tok.AddsBOS() && ours.Text == bos+theirs) {
			continue
		}
		s, err := encoder.Encode(x)
		end := ours.OpenEnd()
		if at := (*data.Error)(nil); errors.As(err, &at) && at.Kind == data.Unrendered { // a part of the conversation is not rendered
			s, err, end = data.Sample{Tokens: data.EncodeRendered(tok, ours)}, nil, ""
		}
		require.NoError(t, err)
		want := server.tokenize(t, theirs+end, !strings.HasPrefix(theirs, bos))
		require.Equal(t, want, s.Tokens, "%s, %s: %s", file, talk.Name, ours.Text)
		same++
	}
	return texts, same
}

// chatConversations returns conversations without special tokens in people's words: the server parses those as
// tokens.
func chatConversations(t *testing.T) []chattest.Conversation {
	return slices.DeleteFunc(chattest.Conversations(t), func(c chattest.Conversation) bool { return c.Name == "mark-up in user text" })
}

// templateModel writes a tiny model with a template and the tokens that the template writes.
func templateModel(t *testing.T, template string, talks []chattest.Conversation, addBOS bool) string {
	special := llmtest.MarkupTokens(template, "<s>", "</s>")
	texts := []string{template}
	for _, talk := range talks {
		for _, m := range talk.Messages {
			texts = append(texts, m.Content())
		}
	}
	c := need.Value(tokenizer.TrainBPE(slices.Values(texts), tokenizer.TrainOptions{VocabSize: 400 + len(special), Special: special, BOS: "<s>", EOS: "</s>", Pre: "qwen2", AddBOS: addBOS}))(t)
	for i, token := range c.Tokens {
		if token == "<think>" || token == "</think>" { // people may write these, too, in models that have them
			c.Types[i] = tokenizer.UserDefined
		}
	}
	tok := need.Value(tokenizer.New(c))(t)
	config := llmtest.TinyConfig(true)
	config.Vocab = tok.NumTokens()
	m := need.Value(model.New(config, tok, 1))(t)
	defer m.Close()
	return llmtest.SaveChat(t, m, template, model.SaveOptions{})
}

func (s *stockServer) applyTemplate(t *testing.T, talk map[string]json.RawMessage) (string, bool) {
	// By default the server enables reasoning and transformers does not.
	request := map[string]any{"add_generation_prompt": false, "chat_template_kwargs": map[string]any{"enable_thinking": false}}
	for _, key := range []string{"messages", "tools"} {
		if v, ok := talk[key]; ok {
			request[key] = v
		}
	}
	var answer struct{ Prompt string }
	ok := s.post(t, "/apply-template", request, &answer)
	return answer.Prompt, ok
}

func (s *stockServer) tokenize(t *testing.T, text string, addSpecial bool) []int32 {
	var answer struct{ Tokens []int32 }
	require.True(t, s.post(t, "/tokenize", map[string]any{"content": text, "add_special": addSpecial, "parse_special": true}, &answer))
	return answer.Tokens
}
