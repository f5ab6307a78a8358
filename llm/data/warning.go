package data

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
)

// A Warning describes something to know about data before training on it. Its options are fields of
// [LoadOptions], or a program's names for them.
type Warning struct{ words []any } // each is a string, an Option or a nested Warning

// String returns the warning with options named after their fields: "… TooLong drop leaves them out".
func (w Warning) String() string { return w.Named(Option.String) }

// Named returns the warning with options named by name, such as a program's flags: "… --too-long drop
// leaves them out". A nil name uses the names of their fields.
func (w Warning) Named(name func(Option) string) string {
	if name == nil {
		name = Option.String
	}
	var b strings.Builder
	for _, word := range w.words {
		switch w := word.(type) {
		case Option:
			word = name(w)
		case Warning:
			word = w.Named(name)
		}
		fmt.Fprint(&b, word)
	}
	return b.String()
}

// An OptionError reports options that do not suit the data.
type OptionError struct{ Warning }

// Error returns the warning, see [Warning.Named].
func (e *OptionError) Error() string { return e.String() }

// warnings returns the warnings about records.
func (o *LoadOptions) warnings(s Stats) (list []Warning) {
	add := func(words ...any) { list = append(list, Warning{words}) }
	if s.Cut > 0 {
		add("too long for ", o.length(), fmt.Sprintf(" and cut: %d of %s (%.0f %%), and %d lose all or most of their answers; ",
			s.Cut, counted.Of(s.Examples, "record"), 100*float64(s.Cut)/float64(s.Examples), s.Lost), o.remedyOfCut(s))
	}
	if notes := s.NotesOf(LeftOut); notes != nil {
		add("left out of all samples, because the chat template or plain text has no place for it: " + listNotes(notes, "%s"))
	}
	if notes := s.NotesOf(UnusedKey); notes != nil {
		add("unused keys: "+listNotes(notes, "%q")+"; ", Option{"Keys", "KEY", "NAME"}, " gives a key another name")
	}
	for _, n := range s.NotesOf(EmptyAnswer) {
		add("empty answers, which train only the end of the turn: " + n.place())
	}
	if notes := s.NotesOf(RoleOrder); notes != nil {
		add("the roles are in an odd order: " + listNotes(notes, "%s"))
	}
	for _, n := range s.NotesOf(MarkedUp) {
		add("prompts or completions have special tokens, which count as plain text in turns of the chat template: "+n.place()+"; ",
			Option{Name: "RawPrompts"}, " trains texts that have their own mark-up")
	}
	for _, n := range s.NotesOf(EmptyReasoning) {
		if o.Encode.EmptyReasoning == chat.TrainEmpty { // requested by the options
			continue
		}
		option := func(value chat.EmptyReasoning) Option { return Option{Name: "EmptyReasoning", Value: value.String()} }
		add(fmt.Sprintf("the chat template writes %q into answers without reasoning (%s), and training on it teaches the model not to reason: ", n.What, n.place()),
			option(chat.MaskEmpty), " keeps it in the text without training on it, ", option(chat.TrainEmpty), " accepts it")
	}
	return list
}

// otherPrompt returns a warning if the template's generation prompt differs from the text that
// precedes trained answers.
func (e *Encoder) otherPrompt() (Warning, bool) {
	err := e.o.Template.CheckPrompt(&e.chat)
	if err == nil {
		return Warning{}, false
	}
	return Warning{[]any{err.Error() + ": programs that follow the template give a prompt that was not trained; with ",
		otherTemplate, ", give a template with a generation prompt equal to the start of its answers"}}, true
}

func (o *LoadOptions) length() Option { return Option{Name: "Length", Value: fmt.Sprint(o.Length)} }

// checkCut checks that most records keep most of their trained tokens.
func (o *LoadOptions) checkCut(s Stats) error {
	if 2*s.Lost <= s.Examples {
		return nil
	}
	lost := fmt.Sprintf(" and cut, most records lose all or most of their answers: %d of %d; ", s.Lost, s.Examples)
	return &OptionError{Warning{[]any{"too long for ", o.length(), lost, o.remedyOfCut(s)}}}
}

// remedyOfCut returns the remedy for records that are too long.
func (o *LoadOptions) remedyOfCut(s Stats) Warning {
	option := func(value LongSamples) Option { return Option{Name: "TooLong", Value: string(value)} }
	first := Warning{[]any{Option{Name: "Length", Value: fmt.Sprint(s.Longest)}, " fits all"}}
	if o.Context > 0 && s.Longest > o.Context {
		first.words = []any{fmt.Sprintf("the longest has %s, and the model was trained on %s", counted.Of(s.Longest, "token"), counted.Of(o.Context, "position"))}
	}
	if o.Pairs {
		return Warning{[]any{first, "; ", option(DropLong), " leaves them out"}}
	}
	return Warning{[]any{first, "; ", option(DropLong), " leaves them out, ", option(SplitLong), " makes several samples of each"}}
}

// NotesOf returns the counts of a kind of note, the most frequent first.
func (s Stats) NotesOf(kind NoteKind) []NoteCount {
	var list []NoteCount
	for _, n := range s.Notes {
		if n.Kind == kind {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b NoteCount) int { return cmp.Compare(b.N, a.N) })
	return list
}

// shownNotes is the maximum number of notes of a kind that are listed.
const shownNotes = 8

// listNotes lists each note with its number of records and the place of the first.
func listNotes(list []NoteCount, format string) string {
	var parts []string
	for _, n := range list[:min(len(list), shownNotes)] {
		parts = append(parts, fmt.Sprintf(format+" (%s)", n.What, n.place()))
	}
	if more := len(list) - shownNotes; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// place returns the number of records with a note and the place of the first.
func (n NoteCount) place() string {
	return fmt.Sprintf("%s, first %s:%d", counted.Of(n.N, "record"), n.File, n.Line)
}
