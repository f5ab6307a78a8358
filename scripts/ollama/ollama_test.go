// Package ollama reads this project's Modelfiles with ollama's own parser, and renders with its templates. It
// is a separate module because ollama's is large. The test of examples/internal/ollama calls it.
package ollama

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/parser"
	"github.com/ollama/ollama/template"
)

// A talk is a conversation with the prompt on which the model was trained.
type talk struct {
	Messages []api.Message
	Want     string
}

type made struct {
	Name      string
	Modelfile string
	Talks     []talk
}

func TestModelfiles(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("GOGGML_MODELFILES"))
	if err != nil {
		t.Skip("GOGGML_MODELFILES names no file of what to check: ", err)
	}
	var all []made
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) { check(t, m) })
	}
}

func check(t *testing.T, m made) {
	file, err := parser.ParseFile(strings.NewReader(m.Modelfile))
	if err != nil {
		t.Fatal(err)
	}
	source := ""
	for _, c := range file.Commands {
		if c.Name == "template" {
			source = c.Args
		}
	}
	if source == "" {
		t.Fatalf("there is no template in %s", m.Modelfile)
	}
	parsed, err := template.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, talk := range m.Talks {
		var got strings.Builder
		if err := parsed.Execute(&got, template.Values{Messages: talk.Messages}); err != nil {
			t.Fatal(err)
		}
		if got.String() != talk.Want {
			t.Errorf("ollama writes\n%q\nand the model was trained on\n%q", got.String(), talk.Want)
		}
	}
}
