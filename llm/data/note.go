package data

import (
	"slices"
	"sort"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// A Note is something about an example that is no fault, and that one should know before one trains on it.
type Note struct {
	Kind NoteKind
	What string // of the kind
	File string
	Line int // as in Example
}

// NoteKind is a kind of note.
type NoteKind string

// Kinds of notes, with what What is of them.
const (
	Rendered       NoteKind = "rendered"        // the template makes the text
	LeftOut        NoteKind = "left out"        // no byte of the text comes from What, which is somebody's words
	UnusedKey      NoteKind = "unused key"      // nor from the key What, of the record or of a message
	EmptyAnswer    NoteKind = "empty answer"    // an answer without a word, a reasoning or a tool call is trained
	RoleOrder      NoteKind = "order of roles"  // of which What is odd
	MarkedUp       NoteKind = "marked up"       // special tokens of a prompt or its completion are text, because the template makes the turns
	EmptyReasoning NoteKind = "empty reasoning" // the empty block of reasoning What, of the template, is trained
)

// NoteCount is how many examples have a note; File and Line locate the first.
type NoteCount struct {
	Note
	N int
}

// maxNotes bounds the counts of notes, because keys can be as many as records: those beyond are counted as one.
const (
	maxNotes    = 100
	furtherKeys = "…"
)

// addNotes counts the notes on one more example.
func addNotes(counts []NoteCount, notes []Note) []NoteCount {
	type what struct{ kind, what string }
	known := map[what]bool{} // each is counted once for an example
	for _, note := range notes {
		key := what{string(note.Kind), note.What}
		if known[key] {
			continue
		}
		known[key] = true
		isSame := func(n Note) bool { return n.Kind == note.Kind && n.What == note.What }
		find := func() int { return slices.IndexFunc(counts, func(c NoteCount) bool { return isSame(c.Note) }) }
		at := find()
		if at < 0 && note.Kind == UnusedKey && len(counts) >= maxNotes {
			note.What = furtherKeys
			at = find()
		}
		if at < 0 {
			counts = append(counts, NoteCount{Note: note})
			at = len(counts) - 1
		}
		counts[at].N++
	}
	return counts
}

// notesAt gives notes the place of their example, and adds one for each key of which nothing is made.
func notesAt(notes []Note, x Example) []Note {
	for _, key := range x.unused {
		notes = append(notes, Note{Kind: UnusedKey, What: key})
	}
	for i := range notes {
		notes[i].File, notes[i].Line = x.File, x.Line
	}
	return notes
}

// notesOnAnswers returns notes on the trained parts of a conversation.
func notesOnAnswers(r *chat.Rendered, x *Example, trained []chat.Range) []Note {
	notes := []Note{{Kind: Rendered}}
	if what := roleOrder(x.Messages); what != "" {
		notes = append(notes, Note{Kind: RoleOrder, What: what})
	}
	for _, m := range x.Messages[x.PromptMessages:] {
		if m.Role() == "assistant" && m.Weight > 0 && m.IsEmpty() {
			notes = append(notes, Note{Kind: EmptyAnswer})
		}
	}
	for _, block := range r.EmptyReasoning() {
		at := sort.Search(len(trained), func(i int) bool { return trained[i].To > block.From })
		if at < len(trained) && trained[at].From < block.To {
			notes = append(notes, Note{Kind: EmptyReasoning, What: strings.TrimSpace(r.Text[block.From:block.To])})
		}
	}
	return notes
}

// roleOrder describes an odd order of roles; "" if there is none.
func roleOrder(messages []chat.Message) string {
	before, last := "", messages[len(messages)-1].Role()
	for i, m := range messages {
		role := m.Role()
		switch {
		case (role == "system" || role == "developer") && i > 0 && before != "system" && before != "developer":
			return role + " after " + before
		case role == "assistant" && (before == "" || before == "system" || before == "developer"):
			if last == "user" {
				return "assistant first and user last, as if they were swapped"
			}
			return "assistant first"
		case role == before && (role == "user" || role == "assistant"):
			return role + " after " + before
		case role == "user" && before == "tool":
			return "user after tool"
		}
		before = role
	}
	if before != "assistant" {
		return before + " last"
	}
	return ""
}
