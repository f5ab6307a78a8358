package data

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// Parts of a conversation that a template omits, as notes and errors call them.
const (
	calledTools      = "the tools that the assistant calls"
	toolCalls        = "the tool calls of the assistant"
	answerWords      = "the words of the assistant"
	answerPart       = "a part of the words of the assistant, such as its reasoning"
	earlierParts     = "a part of answers before the last, such as their reasoning"
	partsOf          = "a part of messages of the role "
	answerReasoning  = "the reasoning of the assistant"
	earlierReasoning = "the reasoning of answers before the last"
	otherTools       = "tools that are not called"
	documents        = "documents"
	systemMessages   = "messages of the system"
	messagesOf       = "messages of the role "
)

// lost finds parts of a conversation that the rendered text lacks altogether. If a part is the
// assistant's, or a tool that it calls, the example is rejected, because it lacks what it should
// teach. Other parts become notes.
func (e *Encoder) lost(x *Example, r *chat.Rendered) ([]Note, error) {
	l := &losses{x: x}
	for _, g := range r.Unrendered() {
		l.add(g, e.forms.Reasoning)
	}
	if len(l.refused) == 0 {
		return l.notes, nil
	}
	return nil, &Error{Kind: Unrendered, Reason: "the chat template has no place for " + strings.Join(l.refused, ", nor for ") + ": none of it is in the text",
		Remedy: "remove it from the record, or give a template that writes it", Option: otherTemplate}
}

// otherTemplate is the option that sets a template.
var otherTemplate = Option{Name: "Template"}

// losses classifies the omitted parts of an example.
type losses struct {
	x       *Example
	refused []string // descriptions, each with its place
	notes   []Note
	called  map[int]bool // indices of the called tools, computed on first use
}

func (l *losses) refuse(what, path string) {
	if !slices.ContainsFunc(l.refused, func(s string) bool { return strings.HasPrefix(s, what+" (") }) {
		l.refused = append(l.refused, fmt.Sprintf("%s (%s)", what, path))
	}
}

func (l *losses) add(g chat.Given, hasReasoning bool) {
	note := func(kind NoteKind, what string) { l.notes = append(l.notes, Note{Kind: kind, What: what}) }
	switch g.Source {
	case chat.Tools:
		if l.called == nil {
			l.called = l.x.calledTools()
		}
		if l.called[g.Index] {
			l.refuse(calledTools, l.x.key("tools")+strings.TrimPrefix(g.Path, "tools"))
		} else {
			note(LeftOut, otherTools)
		}
		return
	case chat.Documents:
		note(LeftOut, documents)
		return
	case chat.Field, chat.Role:
		note(UnusedKey, "messages[]."+g.Path)
		return
	}
	role := l.x.Messages[g.Message].Role()
	path := l.x.path(g.Message, g.Path)
	isLast := g.Message == len(l.x.Messages)-1
	switch isAnswer := role == "assistant"; {
	case isAnswer && g.Source == chat.ToolCalls:
		l.refuse(toolCalls, path[:strings.LastIndexByte(path, ']')+1])
	case isAnswer && g.Cut && !isLast: // such as its reasoning
		note(LeftOut, earlierParts)
	case isAnswer && g.Cut:
		l.refuse(answerPart, strings.TrimSuffix(path, ".text"))
	case isAnswer && g.Source == chat.Content:
		l.refuse(answerWords, strings.TrimSuffix(path, ".text"))
	case isAnswer && hasReasoning && !isLast: // by design: prompts omit earlier reasoning too
		note(LeftOut, earlierReasoning)
	case isAnswer:
		l.refuse(answerReasoning, path)
	case g.Cut:
		note(LeftOut, partsOf+role)
	case role == "system":
		note(LeftOut, systemMessages)
	default:
		note(LeftOut, messagesOf+role)
	}
}

// calledTools returns the indices of the tools that the assistant calls.
func (x *Example) calledTools() map[int]bool {
	var tools []struct {
		Name     string
		Function struct{ Name string }
	}
	called := map[int]bool{}
	if json.Unmarshal(x.Tools, &tools) != nil {
		return called
	}
	names := map[string]bool{}
	for _, m := range x.Messages {
		for _, name := range m.Calls() {
			names[name] = true
		}
	}
	for i, tool := range tools {
		called[i] = names[tool.Name] || names[tool.Function.Name]
	}
	return called
}

// key returns the data's name for a key.
func (x *Example) key(key string) string {
	if x.p == nil {
		return key
	}
	return x.p.name(key)
}

// path returns the place of a part of message i in the record.
func (x *Example) path(i int, path string) string {
	if x.HasText() {
		if strings.HasPrefix(path, "content") {
			return x.key(map[Format]string{Completion: "completion", Instructions: "output"}[x.Format])
		}
		return x.key(path)
	}
	if x.ownSystem {
		i--
	}
	list := string(x.Format)
	if n := x.PromptMessages; n > 0 {
		if x.ownSystem {
			n--
		}
		if i >= n {
			list, i = "completion", i-n
		}
	}
	return fmt.Sprintf("%s[%d].%s", x.key(list), i, path)
}

// lostOfTexts returns notes on the parts of a plain prompt with its completion that only a template
// has a place for.
func lostOfTexts(x *Example) ([]Note, error) {
	var notes []Note
	for _, m := range x.Messages {
		switch {
		case m.Role() == "assistant" && strings.TrimSpace(m.Reasoning()) != "":
			return nil, &Error{Kind: Unrendered, Reason: "a prompt and completion in plain text have no place for " + answerReasoning,
				Remedy: "remove it from the record, or use a chat template", Option: otherTemplate}
		case m.Role() == "system":
			notes = append(notes, Note{Kind: LeftOut, What: systemMessages})
		}
	}
	if x.Tools != nil {
		notes = append(notes, Note{Kind: LeftOut, What: otherTools})
	}
	if x.Documents != nil {
		notes = append(notes, Note{Kind: LeftOut, What: documents})
	}
	return notes, nil
}
