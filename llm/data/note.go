package data

import (
	"slices"
	"sort"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// A Note is something about an example to know before training on it, without being a fault.
type Note struct {
	Kind NoteKind
	What string // depends on the kind
	File string
	Line int // as in Example
}

// NoteKind is a kind of note.
type NoteKind string

// Kinds of notes, with the meaning of What.
const (
	Rendered       NoteKind = "rendered"        // rendered by the template
	LeftOut        NoteKind = "left out"        // no byte of What, somebody's words, is in the text
	UnusedKey      NoteKind = "unused key"      // the key What, of the record or of a message, is ignored
	EmptyAnswer    NoteKind = "empty answer"    // an answer without words, reasoning or tool calls is trained
	RoleOrder      NoteKind = "order of roles"  // What is unusual about the order of roles
	MarkedUp       NoteKind = "marked up"       // special tokens are plain text; the template writes the turns
	EmptyReasoning NoteKind = "empty reasoning" // the template's empty reasoning block What is trained
)

// NoteCount is the number of examples with a note; File and Line locate the first.
type NoteCount struct {
	Note
	N int
}

// maxNotes limits the number of distinct notes, because there can be as many keys as records. Further
// ones are counted together.
const (
	maxNotes    = 100
	furtherKeys = "…"
)

// addNotes adds the notes on one example to the counts.
func addNotes(counts []NoteCount, notes []Note) []NoteCount {
	type what struct{ kind, what string }
	known := map[what]bool{} // count each once per example
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

// notesAt sets the place of an example in its notes, and adds a note for each ignored key.
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
