package ollama

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/goggml/ggml/llm/chat"
)

// A Template is a chat template in ollama's language: Go's text/template over .System and .Messages.
type Template struct {
	Source string
	// HasSystem reports whether the template writes a system message.
	HasSystem bool
}

var errIrregular = errors.New("the chat template does not write all turns alike")

// Words that templates copy unchanged.
const (
	systemWords = "Sys words."
	user1       = "First question?"
	answer1     = "An answer."
	user2       = "Second question?"
	answer2     = "Another one."
	user3       = "Third question?"
)

// Convert renders a template on sample messages, finds what it writes around them, and returns an ollama
// template with the same output. It returns an error if none exists, for example for templates that remove
// reasoning from earlier answers or that raise an error.
func Convert(t *chat.Template, o chat.Options, bos string) (Template, error) {
	render := func(messages ...chat.Message) (string, error) {
		r, err := t.RenderPrompt(&chat.Conversation{Messages: messages}, &o)
		if err != nil {
			return "", err
		}
		return strings.TrimPrefix(r.Text, bos), nil
	}
	user := func(text string) chat.Message { return chat.NewMessage("user", text) }
	answer := func(text string) chat.Message { return chat.NewMessage("assistant", text) }

	long, err := render(user(user1), answer(answer1), user(user2), answer(answer2), user(user3))
	if err != nil {
		return Template{}, err
	}
	around, ok := cut(long, user1, answer1, user2, answer2, user3)
	if !ok || around[1] != around[3] || around[2] != around[4] {
		return Template{}, errIrregular
	}
	s := shape{first: around[0], answer: around[1], next: around[2], last: around[5]}
	if text, err := render(chat.NewMessage("system", systemWords), user(user1), answer(answer1), user(user2)); err == nil {
		with, ok := cut(text, systemWords, user1, answer1, user2)
		if ok && with[2] == s.answer && with[3] == s.next && with[4] == s.last {
			s.hasSystem, s.beforeSystem, s.afterSystem = true, with[0], with[1]
		}
	}
	made := Template{Source: s.source(), HasSystem: s.hasSystem}
	return made, made.check(render)
}

// cut splits a text at words that occur once each, in this order.
func cut(text string, words ...string) (parts []string, ok bool) {
	for _, word := range words {
		if strings.Count(text, word) != 1 {
			return nil, false
		}
		before, after, _ := strings.Cut(text, word)
		parts, text = append(parts, before), after
	}
	return append(parts, text), true
}

// A shape is the text that a template writes between messages.
type shape struct {
	first  string // before the first user message
	answer string // between a user message and its answer
	next   string // between an answer and the next user message
	last   string // after the last user message, where the answer starts

	hasSystem                 bool
	beforeSystem, afterSystem string // afterSystem includes the text before the first user message
}

func (s *shape) source() string {
	start := literal(s.first)
	if s.hasSystem {
		start = fmt.Sprintf("{{ if $.System }}%s{{ $.System }}%s{{ else }}%s{{ end }}", literal(s.beforeSystem), literal(s.afterSystem), literal(s.first))
	}
	between := literal(s.answer)
	if s.last != s.answer {
		between = fmt.Sprintf("{{ if eq (len (slice $.Messages $i)) 1 }}%s{{ else }}%s{{ end }}", literal(s.last), literal(s.answer))
	}
	return `{{- $begun := false }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}{{ if $begun }}` + literal(s.next) + "{{ else }}{{ $begun = true }}" + start +
		"{{ end }}{{ .Content }}" + between + `{{ else if eq .Role "assistant" }}{{ .Content }}{{ end }}{{ end }}`
}

// literal returns a template that writes a text unchanged.
func literal(text string) string {
	if strings.Contains(text, "{{") || strings.Contains(text, "}}") || strings.Contains(text, `"""`) {
		return fmt.Sprintf("{{ %q }}", text)
	}
	return text
}

// A message is a message in ollama's templates.
type message struct{ Role, Content string }

// Render renders messages as ollama does, which also puts system messages into .System.
func (t Template) Render(messages ...chat.Message) (string, error) {
	parsed, err := template.New("").Parse(t.Source)
	if err != nil {
		return "", err
	}
	var seen struct {
		System   string
		Messages []message
	}
	var system []string
	for _, m := range messages {
		if m.Role() == "system" {
			system = append(system, m.Content())
		}
		seen.Messages = append(seen.Messages, message{m.Role(), m.Content()})
	}
	seen.System = strings.Join(system, "\n\n")
	var b strings.Builder
	err = parsed.Execute(&b, seen)
	return b.String(), err
}

// check requires that both templates render further conversations alike.
func (t Template) check(render func(...chat.Message) (string, error)) error {
	m := chat.NewMessage
	talks := [][]chat.Message{
		{m("user", "One line.")},
		{m("user", "Two\nlines: {{ x }} \"quoted\""), m("assistant", "Code:\n```go\nfunc main() {}\n```"), m("user", "And <b>?")},
		{m("user", "1"), m("assistant", "2"), m("user", "3"), m("assistant", "4"), m("user", "5"), m("assistant", "6"), m("user", "7")},
	}
	if t.HasSystem {
		for _, talk := range talks {
			talks = append(talks, append([]chat.Message{m("system", "Be brief.\nBe kind.")}, talk...))
		}
	}
	for _, talk := range talks {
		want, err := render(talk...)
		if err != nil {
			return err
		}
		got, err := t.Render(talk...)
		if err != nil {
			return err
		}
		if got != want {
			return errIrregular
		}
	}
	return nil
}
