package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goggml/ggml/llm/chat"
)

// Pairs is the format of a prompt with a better and a worse answer: chosen and rejected, both texts, both messages,
// or both lists of messages, which may repeat the prompt. The prompt is a text (prompt, or instruction with input) or
// messages (prompt, messages or conversations); without one, it is what both sides begin with.
const Pairs Format = "chosen"

// pairKeys are the keys that make a record a pair.
var pairKeys = []string{"chosen", "rejected"}

// promptNames are the keys of a pair's prompt that are texts.
var promptNames = []string{"question", "query", "instruction"}

// isPair reports whether a record has both sides of a pair, unless the caller gives one of them another meaning.
func (r *record) isPair() bool {
	return !slices.ContainsFunc(pairKeys, func(key string) bool {
		_, has := r.get(key)
		known := r.p.known[r.p.name(key)]
		return !has || known != "" && known != key
	})
}

// pairFormat returns the format of a record where pairs are wanted.
func (r *record) pairFormat() (Format, *fault) {
	if r.isPair() {
		return Pairs, nil
	}
	if missing := r.missing(pairKeys); missing != "" {
		return "", faultf(MissingKey, sayName, "the loss compares two answers, but the record has no %q", r.p.name(missing)).by("Keys", missing, "")
	}
	return "", faultf(Contradiction, "leave the other name out", "%q and %q are the two answers, but another key has one of the names", r.p.name("chosen"), r.p.name("rejected"))
}

// pair reads a pair as the example of its chosen side, with the example of the other.
func (r *record) pair(x *Example) *fault {
	base := Example{Format: Completion, p: x.p}
	prompt, question, f := r.promptOfPair()
	if f != nil {
		return f
	}
	sides := make([]Example, 2)
	for i, key := range pairKeys {
		sides[i] = base
		if f := r.side(&sides[i], key, prompt, question); f != nil {
			return f
		}
	}
	chosen, rejected := &sides[0], &sides[1]
	if f := r.comparable(chosen, rejected); f != nil {
		return f
	}
	for i := range sides {
		if f := r.complete(&sides[i]); f != nil {
			return f
		}
	}
	chosen.unused, chosen.Rejected = x.unused, rejected
	*x = *chosen
	return nil
}

// promptOfPair returns the prompt as messages, or as a text; neither if the record has none.
func (r *record) promptOfPair() (messages []chat.Message, text string, f *fault) {
	for _, key := range []string{"prompt", "messages", "conversations"} {
		value, has := r.get(key)
		switch {
		case !has:
		case value[0] == '[':
			messages, f = r.p.messages(r.p.name(key), value)
			return messages, "", f
		case key == "prompt":
			text, f = r.text(key)
			return nil, text, f
		}
	}
	for _, name := range promptNames {
		i := slices.IndexFunc(r.members, func(m member) bool { return m.key == name && m.value[0] == '"' })
		if i < 0 {
			continue
		}
		text = stringOf(r.members[i].value)
		if name == "instruction" {
			input, f := r.text("input")
			if f != nil {
				return nil, "", f
			}
			text = strings.Trim(text+"\n\n"+input, "\n")
		}
		return nil, text, nil
	}
	return nil, "", nil
}

// side reads one answer, after the prompt.
func (r *record) side(x *Example, key string, prompt []chat.Message, question string) (f *fault) {
	value, _ := r.get(key)
	name := r.p.name(key)
	switch {
	case value[0] == '"':
		text := stringOf(value)
		switch {
		case strings.TrimSpace(text) == "":
			return faultf(Empty, "remove the record", "%q is empty", name)
		case prompt != nil:
			x.Messages, x.PromptMessages = append(slices.Clone(prompt), chat.NewMessage("assistant", text)), len(prompt)
			return nil
		}
		x.Prompt, x.Completion = question, text
		return nil
	case value[0] == '{': // one message
		value = slices.Concat([]byte("["), value, []byte("]"))
	case value[0] != '[':
		return faultf(WrongType, "write it as a text or as messages", "%q is %s where an answer is expected", name, typeOf(value))
	}
	if x.Messages, f = r.p.messages(name, value); f != nil {
		return f
	}
	if prompt == nil && question != "" {
		prompt = []chat.Message{chat.NewMessage("user", question)}
	}
	if sameStart(x.Messages, prompt) < len(prompt) { // otherwise the side repeats the prompt
		x.Messages = slices.Concat(prompt, x.Messages)
	}
	x.PromptMessages = len(prompt)
	return nil
}

// comparable finds the prompt of a pair that both sides begin with, and checks that they differ.
func (r *record) comparable(a, b *Example) *fault {
	chosen, rejected := r.p.name("chosen"), r.p.name("rejected")
	switch {
	case (len(a.Messages) == 0) != (len(b.Messages) == 0):
		return faultf(WrongType, "write both as texts, or both as messages", "of %q and %q one is a text, and the other messages", chosen, rejected)
	case len(a.Messages) == 0:
		if withoutSpace(a.Completion) == withoutSpace(b.Completion) {
			return sameSides(chosen, rejected)
		}
		if a.Prompt == "" {
			splitTexts(a, b)
		}
		if a.Prompt == "" {
			return r.noPrompt("text")
		}
		return nil
	}
	n := sameStart(a.Messages, b.Messages)
	if sameMessages(a.Messages, b.Messages, n) {
		return sameSides(chosen, rejected)
	}
	if n = min(n, len(a.Messages)-1, len(b.Messages)-1); n == 0 {
		return r.noPrompt("message")
	}
	a.PromptMessages, b.PromptMessages = n, n
	for name, x := range map[string]*Example{chosen: a, rejected: b} {
		if !slices.ContainsFunc(x.Messages[n:], func(m chat.Message) bool { return !m.IsEmpty() }) {
			return faultf(Empty, "remove the record", "the answer of %q is empty", name)
		}
	}
	return nil
}

func (r *record) noPrompt(common string) *fault {
	return faultf(MissingKey, sayName, "the answers have no %q, and no %s that both begin with", r.p.name("prompt"), common).by("Keys", "prompt", "")
}

func sameSides(chosen, rejected string) *fault {
	return faultf(SameSides, "remove the record", "%q and %q are equal: there is nothing to prefer", chosen, rejected)
}

// splitTexts takes what two texts begin with for their prompt, which belongs to whole characters of both.
func splitTexts(a, b *Example) {
	n := 0
	for n < min(len(a.Completion), len(b.Completion))-1 && a.Completion[n] == b.Completion[n] {
		n++
	}
	for n > 0 && !utf8.RuneStart(a.Completion[n]) {
		n--
	}
	if n > 0 && a.Completion[n-1] == ' ' { // tokens of most vocabularies begin with their space
		n--
	}
	a.Prompt, a.Completion = a.Completion[:n], a.Completion[n:]
	b.Prompt, b.Completion = b.Completion[:n], b.Completion[n:]
}

// withoutSpace removes white space at the end of an answer, which prefers nothing.
func withoutSpace(text string) string { return strings.TrimRightFunc(text, unicode.IsSpace) }

// sameMessages reports whether both, which begin with a number of equal messages, are equal but for white space at the end of
// their last contents.
func sameMessages(a, b []chat.Message, equal int) bool {
	n := len(a)
	if n != len(b) || equal < n-1 {
		return false
	}
	if equal == n {
		return true
	}
	var last [2][]chat.Message
	for i, m := range []chat.Message{a[n-1], b[n-1]} {
		var copied chat.Message
		text, err := json.Marshal(m)
		if err != nil || json.Unmarshal(text, &copied) != nil {
			return false
		}
		if content := m.Content(); content != "" {
			copied.SetText("content", withoutSpace(content))
		}
		last[i] = []chat.Message{copied}
	}
	return sameStart(last[0], last[1]) == 1
}

// sameStart returns the number of messages that both begin with.
func sameStart(a, b []chat.Message) int {
	for i := range min(len(a), len(b)) {
		x, err1 := json.Marshal(a[i])
		y, err2 := json.Marshal(b[i])
		if errors.Join(err1, err2) != nil || !bytes.Equal(x, y) {
			return i
		}
	}
	return min(len(a), len(b))
}

// complete adds the other parts of the conversation to a side. A text whose prompt was found stays a text.
func (r *record) complete(x *Example) *fault {
	if len(x.Messages) == 0 {
		_, question, f := r.promptOfPair()
		if f != nil || question == "" {
			return f
		}
		return r.answer(x, question)
	}
	if f := r.system(x); f != nil {
		return f
	}
	return r.context(x)
}

// EncodePair converts an example with a Rejected answer to a row of two samples, chosen first, as Encode does. Sides
// of equal tokens are an *Error.
func (e *Encoder) EncodePair(x Example) (Row, error) { return e.encodePair(x, e.Encode) }

// encodePair is EncodePair with another function for a side.
func (e *Encoder) encodePair(x Example, encode func(Example) (Sample, error)) (Row, error) {
	if x.Rejected == nil {
		return nil, errors.New("the example has no rejected answer")
	}
	rejected := *x.Rejected
	rejected.File, rejected.Source, rejected.Line = x.File, x.Source, x.Line
	var row Row
	x.Label, rejected.Label = Desirable, Undesirable
	for _, side := range []Example{x, rejected} {
		s, err := encode(side)
		if err != nil || len(s.Tokens) == 0 { // counted as broken
			return nil, err
		}
		row = append(row, s)
	}
	if !slices.Equal(row[0].Tokens, row[1].Tokens) {
		return row, nil
	}
	err := &Error{File: x.File, Line: x.Line, Kind: SameSides, Reason: "both sides have the same tokens: there is nothing to prefer", Remedy: "remove the record"}
	if e.o.SkipBroken.Skip(err) {
		return nil, nil
	}
	return nil, err
}
