package data

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
)

// What answers have in common, as findings.
const (
	cutAnswers  = "cut-answers"
	sameAnswers = "same-answers"
	manyAnswers = "many-answers"
)

// fewAnswers is how many answers, at least, say something of all.
const fewAnswers = 10

// An answerCensus counts what the answers of records have in common. It takes time for each alone, and its memory is bounded.
type answerCensus struct {
	records, answers int
	same, questions  tally

	ended, open int // answers of several sentences, by whether their last one ends
	firstOpen   place
	lengths     map[int]*cutLength
}

// A place is where a record is.
type place struct {
	file string
	line int
}

// A tally counts texts that are the same, and remembers the most frequent one.
type tally struct {
	counts map[recordHash]*occurrences
	top    *occurrences
	text   string // of top
}

type occurrences struct {
	n     int
	first place
}

// maxTallied bounds the texts of a tally. What most records have is among the first.
const maxTallied = 1 << 17

func (t *tally) add(key recordHash, text string, at place) {
	seen := t.counts[key]
	if seen == nil {
		if len(t.counts) == maxTallied {
			return
		}
		if t.counts == nil {
			t.counts = map[recordHash]*occurrences{}
		}
		seen = &occurrences{first: at}
		t.counts[key] = seen
	}
	if seen.n++; t.top == nil || seen.n > t.top.n {
		t.top, t.text = seen, text
	}
}

// add takes a record that is not among the ones before.
func (c *answerCensus) add(e *Example) {
	at, trained := place{e.File, e.Line}, 0
	for i, m := range e.Messages {
		if i < e.PromptMessages || m.Role() != "assistant" || m.Weight == 0 || len(m.Calls()) > 0 {
			continue
		}
		answer := strings.TrimSpace(m.Content())
		if trained++; answer == "" {
			continue
		}
		c.answers++
		hash := hashOf(answer)
		c.same.add(hash, answer, at)
		c.measure(answer, hash, at)
	}
	if last := len(e.Messages) - 1; trained == 1 && last > 0 && e.Messages[last].Role() == "assistant" {
		c.records++
		what := []any{string(e.Tools), string(e.Documents)}
		for _, m := range e.Messages[:last] {
			what = append(what, m)
		}
		c.questions.add(hashOf(what...), lastQuestion(e.Messages[:last]), at)
	}
}

func lastQuestion(messages []chat.Message) string { return messages[len(messages)-1].Content() }

// Ends of sentences, within a text and at its end, where quotes, brackets and emoji may follow.
var (
	sentenceEnd = regexp.MustCompile(`\p{Ll}[.!?]["”’)]?\s+\p{Lu}|[。！？।؟]`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+•#|>]|\d+[.)])`)
)

// isOpen reports whether a text stops in the middle of a sentence: after a letter or a comma, in a line of several words
// that is no list item.
func isOpen(text string) bool {
	const fewWords = 4
	line := text[strings.LastIndexByte(text, '\n')+1:]
	last, _ := utf8.DecodeLastRuneInString(text)
	return (unicode.IsLetter(last) || last == ',') && !listItem.MatchString(line) && len(strings.Fields(line)) >= fewWords
}

// measure counts an answer by how it ends.
func (c *answerCensus) measure(answer string, hash recordHash, at place) {
	open := isOpen(answer)
	switch {
	case !sentenceEnd.MatchString(answer):
	case !open:
		c.ended++
	default:
		if c.open++; c.open == 1 {
			c.firstOpen = at
		}
	}
	c.measureLength(answer, hash, at)
}

// A cutLength is a length in characters that answers have which stop behind a letter.
type cutLength struct {
	n         int
	first     place
	different map[recordHash]bool // a few
	lastWords [8]int              // by their length
}

// Lengths that are looked at: shorter answers are labels, and longer ones too many for each to be counted.
const (
	minCutLength = 16
	maxCutLength = 1 << 14
)

func (c *answerCensus) measureLength(answer string, hash recordHash, at place) {
	length := utf8.RuneCountInString(answer)
	last, _ := utf8.DecodeLastRuneInString(answer)
	word := answer[strings.LastIndexFunc(answer, unicode.IsSpace)+1:]
	if length < minCutLength || length > maxCutLength || !unicode.IsLetter(last) || word == answer {
		return
	}
	l := c.lengths[length]
	if l == nil {
		if c.lengths == nil {
			c.lengths = map[int]*cutLength{}
		}
		l = &cutLength{first: at, different: map[recordHash]bool{}}
		c.lengths[length] = l
	}
	if l.different[hash] {
		return
	}
	if len(l.different) < fewAnswers {
		l.different[hash] = true
	}
	l.n++
	l.lastWords[min(utf8.RuneCountInString(word), len(l.lastWords)-1)]++
}

// isCut reports whether answers of a length were cut there: there are many, as others are not, and their last words are of
// several lengths, as where a text is made of a pattern they are not.
func (l *cutLength) isCut(answers int) bool {
	several := 0
	for _, n := range l.lastWords {
		if n > 0 && 2*n <= l.n {
			several++
		}
	}
	return l.n >= fewAnswers && 5*l.n >= answers && several >= 3
}

// find makes findings.
func (c *answerCensus) find(add addFinding) {
	for _, length := range slices.Sorted(maps.Keys(c.lengths)) {
		if l := c.lengths[length]; l.isCut(c.answers) {
			add(cutAnswers, true, l.n, fmt.Sprintf("%s of %d end behind %d characters, in a word or before the end of a sentence, first %v: they were cut, and the model learns to stop there",
				counted.Of(l.n, "answer"), c.answers, length, l.first))
		}
	}
	if c.open >= fewAnswers && 10*c.open >= c.open+c.ended {
		add(cutAnswers, true, c.open, fmt.Sprintf("%s of %d of several sentences end in the middle of one, first %v: they were cut, and the model learns to stop there",
			counted.Of(c.open, "answer"), c.open+c.ended, c.firstOpen))
	}
	if top := c.same.top; top != nil && top.n >= 2*fewAnswers && c.same.isMost(c.answers) {
		add(sameAnswers, true, top.n, fmt.Sprintf("%d of %s are %q, first %v: the model learns to say it to everything", top.n, counted.Of(c.answers, "answer"), shortened(c.same.text), top.first))
	}
	if top := c.questions.top; top != nil && top.n >= fewAnswers && 5*top.n >= c.records {
		add(manyAnswers, 2*top.n >= c.records, top.n, fmt.Sprintf("%d of %s ask the same, %q, and have different answers, first %v", top.n, counted.Of(c.records, "record"), shortened(c.questions.text), top.first))
	}
}

// isMost reports whether nearly all answers are the most frequent one; that is the more common, the more it is like a label.
func (t *tally) isMost(answers int) bool {
	if strings.ContainsFunc(t.text, unicode.IsSpace) {
		return 4*t.top.n >= 3*answers
	}
	return 50*t.top.n >= 49*answers
}

// shortened is the beginning of a text.
func shortened(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// String is the place as errors have it.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }
