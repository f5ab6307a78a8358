package data

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Kinds of notes of an inspection, with the meaning of What.
const (
	HeldOutToo   NoteKind = "held out too"  // the record is also in the held-out data
	DoubledBOS   NoteKind = "doubled BOS"   // the sample begins with BOS twice
	MissingBOS   NoteKind = "missing BOS"   // the sample has no BOS, but prompts of the model do
	OpenAnswer   NoteKind = "open answer"   // the trained text ends without an end of turn
	UntrainedEnd NoteKind = "untrained end" // the end of turn What follows the trained text, but is not trained
	ForeignEnd   NoteKind = "foreign end"   // the trained text ends with What, at which the model does not stop
	WrittenEnd   NoteKind = "written end"   // an answer has the end of turn What as text, before the template's
	Mojibake     NoteKind = "mojibake"      // What is UTF-8 that was decoded with another encoding
	UnknownToken NoteKind = "unknown token" // the vocabulary has no token for some character
	SplitMarkup  NoteKind = "split mark-up" // What looks like a token of the template, but the vocabulary lacks it

	ForeignMarkup    NoteKind = "foreign mark-up"   // the words begin or end with What, which is mark-up of turns
	ControlCharacter NoteKind = "control character" // the words contain What, such as U+0000
	EscapedTwice     NoteKind = "escaped twice"     // the words contain the escape What
	RepeatedExchange NoteKind = "repeated exchange" // a question has the same answer twice
	ToolWithoutCall  NoteKind = "tool without call" // a tool answers without a call
)

type noteList []Note

func (l *noteList) add(kind NoteKind, what string) { *l = append(*l, Note{Kind: kind, What: what}) }

// notes returns the notes on an example and its sample; r is its rendered conversation, or nil.
func (x *inspector) notes(e *Example, s Sample, r *chat.Rendered) []Note {
	var notes noteList
	texts := textsOf(e)
	for _, fault := range wordFaults {
		for _, text := range texts {
			if what := fault.find(text); what != "" {
				notes.add(fault.kind, what)
				break
			}
		}
	}
	if escape := escapedTwice(texts); escape != "" {
		notes.add(EscapedTwice, escape)
	}
	if token := x.foreignMarkup(e); token != "" && !slices.ContainsFunc(s.Notes, func(n Note) bool { return n.Kind == MarkedUp }) {
		notes.add(ForeignMarkup, token)
	}
	bos, unknown := x.t.BOS(), x.t.Unknown()
	if bos != tokenizer.None && len(s.Tokens) > 1 && s.Tokens[0] == bos && s.Tokens[1] == bos {
		notes.add(DoubledBOS, "")
	}
	if unknown != tokenizer.None && slices.Contains(s.Tokens, unknown) {
		notes.add(UnknownToken, "")
	}
	if r == nil {
		return notes
	}
	if x.wantsBOS && s.Tokens[0] != bos { // texts have BOS if the vocabulary adds it
		notes.add(MissingBOS, "")
	}
	return append(notes, x.chatNotes(e, s, r)...)
}

// chatNotes describes what is unusual in a conversation.
func (x *inspector) chatNotes(e *Example, s Sample, r *chat.Rendered) []Note {
	var notes noteList
	if kind, what := x.ending(s); kind != "" {
		notes.add(kind, what)
	}
	for _, m := range e.Messages[e.PromptMessages:] {
		if m.Role() != "assistant" || m.Weight == 0 {
			continue
		}
		if block := emptyBlock.FindString(m.Content()); block != "" {
			notes.add(EmptyReasoning, strings.TrimSpace(block))
		}
		if end := x.writtenEnd(m.Content()); end != "" {
			notes.add(WrittenEnd, end)
		}
	}
	if repeatsExchange(e.Messages) {
		notes.add(RepeatedExchange, "")
	}
	if lacksCall(e.Messages) {
		notes.add(ToolWithoutCall, "")
	}
	for _, what := range x.splitMarkup(r) {
		notes.add(SplitMarkup, what)
	}
	return notes
}

// wordFaults are faults that no valid text has.
var wordFaults = []struct {
	kind NoteKind
	find func(text string) string
}{{Mojibake, mojibake}, {ControlCharacter, controlCharacter}}

// textsOf returns the texts of an example.
func textsOf(e *Example) []string {
	texts := []string{e.Text, e.Prompt, e.Completion}
	for _, m := range e.Messages {
		texts = append(texts, m.Content(), m.Reasoning())
	}
	return texts
}

// ending describes how the trained part of a conversation ends; "" if it ends as the model ends its
// turn.
func (x *inspector) ending(s Sample) (NoteKind, string) {
	last := len(s.Tokens) - 1
	for last > 0 && (s.LossWeights != nil && s.LossWeights[last-1] == 0 || strings.TrimSpace(string(x.t.Piece(s.Tokens[last]))) == "") {
		last--
	}
	switch id := s.Tokens[last]; {
	case x.t.IsEOG(id):
		return "", ""
	case last+1 < len(s.Tokens) && x.t.IsEOG(s.Tokens[last+1]):
		return UntrainedEnd, x.t.TokenText(s.Tokens[last+1])
	case x.t.IsSpecial(id):
		return ForeignEnd, x.t.TokenText(id)
	}
	return OpenAnswer, ""
}

// emptyBlock matches an empty reasoning block at the beginning of an answer in the data.
var emptyBlock = regexp.MustCompile(`^\s*(<think>\s*</think>|<thinking>\s*</thinking>|<thought>\s*</thought>|<reasoning>\s*</reasoning>)`)

// writtenEnd finds an end of turn written as text in an answer: at its end, or anywhere if it does not
// look like a word.
func (x *inspector) writtenEnd(text string) string {
	for _, end := range x.encoder.chat.EndOfTurn {
		if strings.HasSuffix(strings.TrimSpace(text), end) || markup.MatchString(end) && strings.Contains(text, end) {
			return end
		}
	}
	return ""
}

// markup matches text that looks like a special token.
var markup = regexp.MustCompile(`<[|｜][^<>|｜\s]{1,40}[|｜]>|<(start|end)_of_[a-z]+>`)

// splitMarkup finds template text that looks like special tokens which the vocabulary lacks.
func (x *inspector) splitMarkup(r *chat.Rendered) (list []string) {
	for _, c := range r.Chunks() {
		if !c.Markup {
			continue
		}
		for _, text := range markup.FindAllString(r.Text[c.From:c.To], -1) {
			if _, known := x.t.TokenID(text); !known {
				list = append(list, text)
			}
		}
	}
	return list
}

// longLine is the minimum number of bytes of a text line whose repetition is not a coincidence.
const longLine = 64

// readLines adds notes on lines of text.
func (x *inspector) readLines() error {
	return eachLine(x.Files, func(line, file string, number int) {
		var notes []Note
		for _, fault := range wordFaults {
			if what := fault.find(line); what != "" {
				notes = append(notes, Note{fault.kind, what, file, number})
			}
		}
		if len(line) >= longLine {
			h := hashOf(line)
			if x.seen[h] {
				x.Duplicates++
			}
			if x.seen[h] = true; x.held[h] {
				notes = append(notes, Note{HeldOutToo, "", file, number})
			}
		}
		x.Stats.Notes = addNotes(x.Stats.Notes, notes)
	})
}

// eachLine calls visit for the lines of text files, without white space around them.
func eachLine(files []string, visit func(line, file string, number int)) error {
	for _, file := range files {
		if err := eachLineOf(file, visit); err != nil {
			return err
		}
	}
	return nil
}

func eachLineOf(file string, visit func(line, file string, number int)) error {
	lines := bufio.NewReader(TextFiles(file))
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if line != "" {
			visit(strings.TrimSpace(line), file, number)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
