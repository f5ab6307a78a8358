package data

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// A Label judges the answer of a sample.
type Label uint8

const (
	Unlabelled  Label = iota
	Desirable         // the chosen answer of a pair, or of a record whose label is true
	Undesirable       // the rejected answer of a pair, or of a record whose label is false
	Mismatched        // the answer of another record, see LoadOptions.Mismatched
)

// labelNames are names of the key of labels. The key itself comes first.
var labelNames = []string{"label", "kto_tag"}

// labelledFormat returns the format of a record where labels are wanted: a pair, which makes two labelled answers, or
// any other format with an answer to a prompt.
func (r *record) labelledFormat() (Format, *fault) {
	if r.isPair() {
		return Pairs, nil
	}
	format, f := r.formatByKeys()
	switch {
	case f != nil:
		return "", f
	case format == Text:
		return "", faultf(MissingKey, sayName, "the loss judges answers to prompts, but the record has only %q", r.p.name("text")).by("Keys", "prompt", "")
	}
	return format, nil
}

// label reads the label of an answer, which is what follows the last message of others.
func (r *record) label(x *Example) *fault {
	name, f := r.find("label", labelNames)
	switch {
	case f != nil:
		return f
	case name == "":
		return faultf(MissingKey, sayName, "the loss judges each answer by its label, but the record has no %q", r.p.name("label")).by("Keys", "label", "")
	}
	x.unused = slices.DeleteFunc(x.unused, func(key string) bool { return key == name })
	i := slices.IndexFunc(r.members, func(m member) bool { return m.key == name })
	value := r.members[i].value
	text := string(value)
	if value[0] == '"' { // of a table
		text = stringOf(value)
	}
	switch strings.ToLower(text) {
	case "true", "1":
		x.Label = Desirable
	case "false", "0":
		x.Label = Undesirable
	default:
		return faultf(WrongType, "write true for a desirable answer, and false for an undesirable one", "%q is %s, which is not a label", name, shortened(string(bytes.TrimSpace(value))))
	}
	if x.HasText() {
		if strings.TrimSpace(x.Completion) == "" {
			return faultf(Empty, "remove the record", "the answer is empty")
		}
		return nil
	}
	if x.PromptMessages == 0 {
		x.PromptMessages = len(x.Messages)
		for x.PromptMessages > 0 && x.Messages[x.PromptMessages-1].Role() == "assistant" {
			x.PromptMessages--
		}
	}
	switch answer := x.Messages[x.PromptMessages:]; {
	case len(answer) == 0:
		return faultf(Empty, "remove the record", "the conversation ends without an answer that the label could judge")
	case x.PromptMessages == 0:
		return faultf(MissingKey, sayName, "the answer has no %q", r.p.name("prompt")).by("Keys", "prompt", "")
	case !slices.ContainsFunc(answer, func(m chat.Message) bool { return !m.IsEmpty() }):
		return faultf(Empty, "remove the record", "the answer is empty")
	}
	return nil
}

// labelled returns the labelled answers of an example: its own, or both of a pair.
func (x Example) labelled() []Example {
	if x.Rejected == nil {
		return []Example{x}
	}
	rejected := *x.Rejected
	rejected.File, rejected.Source, rejected.Line, rejected.Label = x.File, x.Source, x.Line, Undesirable
	x.Rejected, x.Label = nil, Desirable
	return []Example{x, rejected}
}

// eachLabelled iterates over the labelled answers of examples.
func eachLabelled(examples iter.Seq2[Example, error]) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for x, err := range examples {
			if err != nil {
				yield(x, err)
				return
			}
			for _, answer := range x.labelled() {
				if !yield(answer, nil) {
					return
				}
			}
		}
	}
}

// withMismatched adds to each example its prompt with the answer of the nearest earlier example that has another
// prompt. The first ones, which have none, take the answer of the first example with another prompt.
func withMismatched(examples iter.Seq2[Example, error]) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		var first []Example // of one prompt, before any other
		var firstPrompt, lastPrompt recordHash
		var last, other *Example
		give := func(x Example, answer *Example) bool {
			x.mismatched = x.with(answer)
			return yield(x, nil)
		}
		for x, err := range examples {
			if err != nil {
				yield(x, err)
				return
			}
			prompt := x.promptHash()
			switch {
			case other != nil:
				if prompt != lastPrompt {
					other = last
				}
			case len(first) == 0 || prompt == firstPrompt:
				first, firstPrompt = append(first, x), prompt
				continue
			default:
				for _, earlier := range first {
					if !give(earlier, &x) {
						return
					}
				}
				other = &first[len(first)-1]
			}
			last, lastPrompt = &x, prompt
			if !give(x, other) {
				return
			}
		}
		if other == nil && len(first) > 0 {
			yield(Example{}, &Error{File: first[0].File, Kind: NoExamples, Reason: "all records have the same prompt, and the loss kto compares with answers to other prompts",
				Remedy: "add records with other prompts, or choose the loss apo-zero-unpaired"})
		}
	}
}

// prompt returns the messages before the answer.
func (x *Example) prompt() []chat.Message {
	if x.PromptMessages > 0 {
		return x.Messages[:x.PromptMessages]
	}
	return x.Messages[:max(0, len(x.Messages)-1)]
}

func (x *Example) promptHash() recordHash {
	return hashOf(x.Prompt, x.prompt(), x.Tools, x.Documents)
}

// with returns the example with the answer of another one.
func (x Example) with(y *Example) *Example {
	answer := y.Messages[len(y.prompt()):]
	if len(answer) == 0 {
		answer = []chat.Message{chat.NewMessage("assistant", y.Completion)}
	}
	if x.Completion = y.Completion; x.Completion == "" {
		x.Completion = answer[len(answer)-1].Content()
	}
	if len(x.Messages) > 0 {
		x.Messages = slices.Concat(x.prompt(), answer)
	}
	x.Label, x.unused, x.notes = Mismatched, nil, nil
	return &x
}

// encodeLabelled converts an example to a row of its answer and, if it has one, the mismatched answer.
func (e *Encoder) encodeLabelled(x Example) (Row, error) {
	s, err := e.Encode(x)
	if err != nil || len(s.Tokens) == 0 {
		return nil, err
	}
	row := Row{s}
	if x.mismatched != nil {
		// A fault of the other answer is counted where it is the record's own.
		other, _, err := e.encode(*x.mismatched)
		if err != nil || other.Targets() == 0 {
			return nil, nil
		}
		other.Notes, other.Label, other.Origin = nil, Mismatched, s.Origin
		row = append(row, other)
	}
	return row, nil
}

// Preferred returns the data set of the answers to imitate, one a row: the desirable ones of labelled answers, such as
// the chosen ones of pairs, and all others that have no label.
func (d *Dataset) Preferred() (*Dataset, error) {
	if d.Len() == 0 {
		return d, nil
	}
	p := &Dataset{Length: d.Length, samples: d.samples, sources: d.sources, order: []uint32{}}
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return nil, err
		}
		from, _ := d.places(i)
		for k, s := range row {
			if s.Label == Desirable || s.Label == Unlabelled {
				p.order = append(p.order, uint32(d.number(from+k)))
			}
		}
	}
	return p, nil
}
