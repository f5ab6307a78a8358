package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A Finding is a fault in data, or something worth knowing. Its words name the first record.
type Finding struct {
	Name  string // such as doubled-bos
	Ruins bool   // it ruins training
	N     int    // number of records; 0 if it concerns all data
	Warning
}

// Names of findings that no note reports.
const (
	noTraining        = "nothing-trained"
	faultyRecords     = "broken-records"
	lostAnswers       = "lost-answers"
	cutRecords        = "cut-records"
	differentTemplate = "other-template"
	missingTokens     = "missing-tokens"
	differentPrompt   = "other-prompt"
	padding           = "padding"
)

// noteFindings are the findings for kinds of notes. The text has a place for the note's What.
var noteFindings = []struct {
	kind  NoteKind
	name  string
	ruins bool
	text  string
}{
	{HeldOutToo, "held-out-too", true, "also in the held-out data, so the held-out loss says nothing about new data"},
	{OpenAnswer, "open-answer", true, "the trained text ends without an end of turn: the model learns not to stop"},
	{UntrainedEnd, "untrained-end", true, "the end of turn %q after the answer is not trained: the model does not learn to stop"},
	{ForeignEnd, "foreign-end", true, "the answer ends with %q, but programs do not stop there: the vocabulary does not list it as an end of generation"},
	{WrittenEnd, "written-end", true, "an answer has the end of turn %q as text, before the template's own: the model learns to write it, and not to stop there"},
	{DoubledBOS, "doubled-bos", true, "the sample begins with BOS twice, but prompts do not"},
	{MissingBOS, "missing-bos", true, "the sample begins without BOS, but the model's own template writes it"},
	{RoleOrder, "role-order", true, "the roles are in an odd order: %s"},
	{EmptyAnswer, "empty-answer", true, "an answer is empty, and its end is trained: the model learns to say nothing"},
	{Mojibake, "mojibake", true, "the text has %q: a lost character, or UTF-8 that was decoded with another encoding"},
	{ForeignMarkup, "foreign-markup", true, "a message begins or ends with %q, which counts as plain text: the template writes the mark-up of turns"},
	{ControlCharacter, "control-characters", true, "the text has the control character %s: it is not text, or was decoded wrongly"},
	{EscapedTwice, "escaped-twice", true, "the text has the escape %q: it was escaped twice, or never unescaped"},
	{RepeatedExchange, "repeated-exchange", true, "a question and its answer occur twice in a conversation: the model learns to repeat itself"},
	{ToolWithoutCall, "tool-without-call", true, "a tool answers without a call: the model learns to expect results that it did not ask for"},
	{EmptyReasoning, "empty-reasoning", true, "answers without reasoning have %q, from the template or the data, and training on it teaches the model not to reason"},
	{UnknownToken, "unknown-token", true, "the vocabulary has no token for some character"},
	{MarkedUp, "marked-up", true, "special tokens in a prompt or completion count as plain text, because the chat template writes the turns"},
	{LeftOut, "left-out", false, "the chat template has no place for %s"},
	{UnusedKey, "unused-key", false, "the key %q is not used"},
}

// FindingNames returns the names of all possible findings, sorted.
func FindingNames() []string {
	names := []string{noTraining, faultyRecords, lostAnswers, cutRecords, differentTemplate, missingTokens, differentPrompt, padding, cutAnswers, sameAnswers, manyAnswers, contradicting, oneLabel, lengthBias}
	for _, f := range noteFindings {
		names = append(names, f.name)
	}
	return slices.Sorted(slices.Values(names))
}

// find lists the findings: those that ruin a run first, and within each group the most frequent first.
func (x *inspector) find(d *Dataset) {
	add := func(name string, ruins bool, n int, words ...any) {
		x.Findings = append(x.Findings, Finding{name, ruins, n, Warning{words}})
	}
	for _, c := range x.broken.Counts() {
		name := faultyRecords
		if c.Kind == NothingTrained {
			name = noTraining
		}
		add(name, true, c.N, fmt.Sprintf("%s with %s, first %v", counted.Of(c.N, "record"), c.Kind, c.First))
	}
	for _, f := range noteFindings {
		for _, n := range x.NotesOf(f.kind) {
			if f.kind == EmptyReasoning && x.o.Encode.EmptyReasoning == chat.TrainEmpty {
				continue // requested by the options
			}
			text := f.text
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, n.What)
			}
			add(f.name, f.ruins, n.N, n.place()+": "+text)
		}
	}
	x.answers.find(add)
	x.findPairs(add)
	x.findLong(add)
	x.findTemplate(add)
	if d != nil && !x.IsText && x.Pairs == nil {
		x.findPadding(d, add)
	}
	place := func(f Finding) int {
		if f.Ruins {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(x.Findings, func(a, b Finding) int { return place(a) - place(b) })
}

type addFinding = func(name string, ruins bool, n int, words ...any)

// findLong reports records that are too long.
func (x *inspector) findLong(add addFinding) {
	s := x.Stats
	if s.Cut == 0 {
		return
	}
	name, ruins := cutRecords, 2*s.Lost > s.Examples
	if ruins {
		name = lostAnswers
	}
	add(name, ruins, s.Cut, "too long for ", x.o.length(), fmt.Sprintf(" and cut: %d of %s, and %d lose all or most of their answers; ",
		s.Cut, counted.Of(s.Examples, "record"), s.Lost), x.o.remedyOfCut(s))
}

// findTemplate reports a template other than the model's, and its tokens that the vocabulary lacks.
// Missing tokens of the model's own template do not ruin training: some models lack some, and have
// learnt to do without.
func (x *inspector) findTemplate(add addFinding) {
	if x.encoder == nil || x.NotesOf(Rendered) == nil {
		return
	}
	isOther := x.templateDiffers()
	if isOther {
		add(differentTemplate, true, 0, "the chat template given by ", otherTemplate, " differs from the model's own, which programs use to run the model: it writes other text for the same messages")
	}
	var missing []string
	for _, n := range x.NotesOf(SplitMarkup) {
		missing = append(missing, fmt.Sprintf("%q", n.What))
	}
	if missing != nil {
		isOwn := !isOther && x.t.ChatTemplate() != ""
		add(missingTokens, !isOwn, 0, "the chat template writes "+strings.Join(missing, ", ")+", which are not tokens of the vocabulary: each is read as several tokens")
	}
	if w, isOther := x.encoder.otherPrompt(); isOther {
		add(differentPrompt, true, 0, w)
	}
}

// templateDiffers reports whether the template renders messages differently from the model's template.
func (x *inspector) templateDiffers() bool {
	if x.o.Encode.Template == nil || x.t.ChatTemplate() == "" {
		return false
	}
	own, err := ModelTemplate(tokenizer.ChatTemplateKey, x.t)
	if err != nil {
		return false
	}
	rendered := func(t *chat.Template) string {
		r, err := t.Render(fewWords(), &x.encoder.chat)
		if err != nil {
			return err.Error()
		}
		return r.Text
	}
	return rendered(own) != rendered(x.o.Encode.Template)
}

// fewWords returns the conversation by which templates are compared.
func fewWords() *chat.Conversation {
	return &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "one"), chat.NewMessage("assistant", "two"), chat.NewMessage("user", "three"), chat.NewMessage("assistant", "four")}}
}

// findPadding reports rows that are mostly padding, because a few samples are much longer than the others.
func (x *inspector) findPadding(d *Dataset, add addFinding) {
	const few, most = 0.5, 0.25
	longest := d.Longest()
	fill := float64(d.NumTokens()) / float64(d.Len()) / float64(max(1, longest))
	if x.o.Packed || fill >= few || d.Len() < 2 {
		return
	}
	packed, err := (&Dataset{Length: d.Length, samples: d.samples}).Packed(0)
	if err != nil {
		return
	}
	add(padding, fill < most, 0, fmt.Sprintf("samples fill only %.0f %% of their padded rows: ", 100*fill),
		Option{Name: "Packed"}, fmt.Sprintf(" would need %s instead of %d, %.0f %% full", counted.Of(packed.Len(), "row"), d.Len(), 100*packed.Fill()))
}
