//go:build interop

package ollama

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// TestInteropModelfiles gives converted chat templates to ollama's parser and template engine. The prompts
// equal the original templates' prompts, with and without a system message, in conversations that the
// conversion did not use.
func TestInteropModelfiles(t *testing.T) {
	folder := need.Value(exec.Command("../../scripts/chattemplates").Output())(t)
	paths := need.Value(filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "templates", "*", "*.jinja")))(t)
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type talk struct {
		Messages []message
		Want     string
	}
	type made struct {
		Name, Modelfile string
		Talks           []talk
	}
	var all []made
	said := 0
	for _, path := range paths {
		source := need.Value(os.ReadFile(path))(t)
		c := need.Value(tokenizer.TrainBPE(func(yield func(string) bool) { yield("text") }, tokenizer.TrainOptions{
			VocabSize: 280, Special: []string{"<s>", "</s>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}, BOS: "<s>", EOS: "</s>", Pre: "gpt-2", MinCount: 2,
		}))(t)
		c.ChatTemplate = string(source)
		v := need.Value(tokenizer.New(c))(t)
		m := Modelfile{Model: "merged.gguf", Tokenizer: v}
		text, err := m.Text()
		require.NoError(t, err, path)
		if !strings.Contains(text, "\nTEMPLATE \"\"\"") {
			require.Contains(t, text, "cannot be written in ollama's language", path)
			said++
			continue
		}
		template := need.Value(data.ModelTemplate(path, v))(t)
		one := made{Name: filepath.Base(filepath.Dir(path)) + "-" + filepath.Base(path), Modelfile: text}
		talks := [][]message{
			{{"user", "Wie spät ist es?"}},
			{{"user", "a\nb"}, {"assistant", "c `d` \"e\""}, {"user", "f & g"}},
			{{"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "4"}, {"user", "5"}},
		}
		if !strings.Contains(text, "leaves out system messages") {
			talks = append(talks, append([]message{{"system", "Be brief."}}, talks[1]...))
		}
		for _, messages := range talks {
			o := data.RenderOptions(v, nil)
			o.AddGenerationPrompt = true
			var conversation chat.Conversation
			for _, m := range messages {
				conversation.Messages = append(conversation.Messages, chat.NewMessage(m.Role, m.Content))
			}
			r, err := template.Render(&conversation, &o)
			require.NoError(t, err, path)
			want := r.Text
			if v.AddsBOS() {
				want = strings.TrimPrefix(want, "<s>")
			}
			one.Talks = append(one.Talks, talk{messages, want})
		}
		all = append(all, one)
	}
	t.Logf("%d templates can be said in ollama's language, %d cannot", len(all), said)
	require.Greater(t, len(all), 50)
	text := need.Value(json.Marshal(all))(t)
	file := filepath.Join(t.TempDir(), "modelfiles.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	test := exec.Command("go", "test", "-count=1", "./...")
	test.Dir = "../../scripts/ollama"
	test.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOGGML_MODELFILES="+file)
	need.Output(t, test)
}
