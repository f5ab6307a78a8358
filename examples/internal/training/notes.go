package training

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
)

// checkCut demands that most examples keep most of what is trained of them.
func (f *DataFlags) checkCut(s Source, stats data.Stats) error {
	if 2*stats.Lost <= stats.Examples {
		return nil
	}
	return fmt.Errorf("too long for --ctx %d and cut, most records lose all or most of their answers: %d of %d; %s", f.Ctx, stats.Lost, stats.Examples, f.remedyOfCut(s, stats))
}

// remedyOfCut says what to do about records that are too long.
func (f *DataFlags) remedyOfCut(s Source, stats data.Stats) string {
	const others = "--too-long drop leaves them out, --too-long split makes several samples of each"
	if s.Context > 0 && stats.Longest > s.Context {
		return fmt.Sprintf("the longest has %s, and the model was trained on %s; %s", cli.Count(stats.Longest, "token"), cli.Count(s.Context, "position"), others)
	}
	return fmt.Sprintf("--ctx %d fits all; %s", stats.Longest, others)
}

// warn tells what one should know of the records before a run is paid for.
func (f *DataFlags) warn(w io.Writer, s Source, flag string, stats data.Stats) {
	line := func(format string, args ...any) { fmt.Fprintf(w, flag+": warning: "+format+"\n", args...) }
	if stats.Cut > 0 {
		line("too long for --ctx %d and cut: %d of %s (%.0f %%), of which %d lose all or most of their answers; %s",
			f.Ctx, stats.Cut, cli.Count(stats.Examples, "record"), 100*float64(stats.Cut)/float64(stats.Examples), stats.Lost, f.remedyOfCut(s, stats))
	}
	if list := notesOf(stats, data.LeftOut); list != nil {
		line("in no sample, because the chat template, or a text, has no place for it: %s", listNotes(list, "%s"))
	}
	if list := notesOf(stats, data.UnusedKey); list != nil {
		line("keys of which nothing is made: %s; --key KEY=NAME gives a key another name", listNotes(list, "%q"))
	}
	for _, n := range notesOf(stats, data.EmptyAnswer) {
		line("empty answers, of which the end of the turn alone is trained: %s, first %s", cli.Count(n.N, "record"), place(n))
	}
	for _, n := range notesOf(stats, data.MarkedUp) {
		line("prompts or completions have special tokens, which are text in a turn that the chat template makes: %s, first %s; --raw-prompts trains texts with mark-up of their own",
			cli.Count(n.N, "record"), place(n))
	}
	for _, n := range notesOf(stats, data.EmptyReasoning) {
		f.warnOfReasoning(line, n)
	}
}

// warnOfReasoning tells that the model learns not to reason, unless that is what was asked for.
func (f *DataFlags) warnOfReasoning(line func(string, ...any), n data.NoteCount) {
	if f.EmptyBlocks == "train" {
		return
	}
	line("the chat template writes %q into answers without reasoning (%s, first %s), and the model is trained to write it, that is not to reason: "+
		"--empty-reasoning mask leaves it in the text untrained, --empty-reasoning train says that it is meant", n.What, cli.Count(n.N, "record"), place(n))
}

// notesOf are the counts of a kind, the most frequent first.
func notesOf(stats data.Stats, kind data.NoteKind) []data.NoteCount {
	var list []data.NoteCount
	for _, n := range stats.Notes {
		if n.Kind == kind {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b data.NoteCount) int { return b.N - a.N })
	return list
}

// shownNotes is how many of a kind are told by name.
const shownNotes = 8

// listNotes says what, of how many records, and where the first is.
func listNotes(list []data.NoteCount, format string) string {
	var parts []string
	for _, n := range list[:min(len(list), shownNotes)] {
		parts = append(parts, fmt.Sprintf(format+" (%s, first %s)", n.What, cli.Count(n.N, "record"), place(n)))
	}
	if more := len(list) - shownNotes; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

func place(n data.NoteCount) string { return fmt.Sprintf("%s:%d", n.File, n.Line) }
