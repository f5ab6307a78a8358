package ollama

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A Modelfile is ollama's recipe for a model. It is safe for concurrent use while nothing changes its fields.
type Modelfile struct {
	Model     string               // path of the GGUF file, relative to the Modelfile
	Template  *chat.Template       // the template of training; nil keeps the model's own
	Variables map[string]any       // of the template
	Tokenizer *tokenizer.Tokenizer // of the model
}

// Text returns the file in ollama's syntax. If the chat template cannot be converted, a comment in the file says so,
// and ollama falls back to the model's own template.
func (m *Modelfile) Text() (string, error) {
	switch {
	case m == nil:
		return "", errors.New("the Modelfile is nil")
	case m.Tokenizer == nil:
		return "", errors.New("the Modelfile has no tokenizer; set Tokenizer to the model's")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", m.Model)
	t := m.Template
	if t == nil && m.Tokenizer.ChatTemplate() != "" {
		var err error
		if t, err = data.ModelTemplate(m.Model, m.Tokenizer); err != nil {
			return "", err
		}
	}
	if t == nil {
		return b.String(), nil
	}
	options := data.RenderOptions(m.Tokenizer, m.Variables)
	bos := ""
	if m.Tokenizer.AddsBOS() && m.Tokenizer.BOS() != tokenizer.None { // ollama adds BOS itself
		bos = m.Tokenizer.TokenText(m.Tokenizer.BOS())
	}
	made, err := Convert(t, options, bos)
	switch {
	case err != nil:
		fmt.Fprintf(&b, "\n# The chat template of training cannot be written in ollama's language: %s.\n"+
			"# Without TEMPLATE, ollama uses the template in the model if it knows it; check with: ollama show --template NAME\n", oneLine(err.Error()))
	default:
		if !made.HasSystem {
			b.WriteString("\n# The chat template leaves out system messages.\n")
		}
		fmt.Fprintf(&b, "\nTEMPLATE \"\"\"%s\"\"\"\n", made.Source)
	}
	for _, stop := range m.stops(t, &options) {
		fmt.Fprintf(&b, "PARAMETER stop %q\n", stop)
	}
	return b.String(), nil
}

// stops returns the texts that end answers: what the template writes after an answer, if the model stops there.
func (m *Modelfile) stops(t *chat.Template, o *chat.Options) (list []string) {
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", user1), chat.NewMessage("assistant", answer1), chat.NewMessage("user", user2)}}
	r, err := t.Render(talk, o)
	if err != nil {
		return nil
	}
	_, behind, _ := strings.Cut(r.Text, answer1)
	behind = strings.TrimSpace(behind)
	for _, end := range o.EndOfTurn {
		if end != "" && strings.HasPrefix(behind, end) {
			list = append(list, end)
		}
	}
	return list
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
