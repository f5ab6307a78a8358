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

// Findings about common properties of answers.
const (
	cutAnswers  = "cut-answers"
	sameAnswers = "same-answers"
	manyAnswers = "many-answers"
)

// fewAnswers is the minimum number of answers for such a finding.
const fewAnswers = 10

// An answerCensus collects statistics of answers, one record at a time, in bounded memory.
type answerCensus struct {
	records, answers int
	same, questions  tally

	ended, open int // answers of several sentences, by whether the last one is complete
	firstOpen   place
	lengths     map[int]*cutLength
}

// A place is the place of a record.
type place struct {
	file string
	line int
}

// A tally counts equal texts and tracks the most frequent one.
type tally struct {
	counts map[recordHash]*occurrences
	top    *occurrences
	text   string // of top
}

type occurrences struct {
	n     int
	first place
}

// maxTallied limits the number of texts in a tally. A text that most records have is among the first.
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

// add adds a record that is not a duplicate.
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

// Ends of sentences, inside a text and at its end, where quotes, brackets and emoji may follow.
var (
	sentenceEnd = regexp.MustCompile(`\p{Ll}[.!?]["”’)]?\s+\p{Lu}|[。！？।؟]`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+•#|>]|\d+[.)])`)
)

// isOpen reports whether a text stops in the middle of a sentence: after a letter or comma, in a line
// of several words that is not a list item.
func isOpen(text string) bool {
	const fewWords = 4
	line := text[strings.LastIndexByte(text, '\n')+1:]
	last, _ := utf8.DecodeLastRuneInString(text)
	return (unicode.IsLetter(last) || last == ',') && !listItem.MatchString(line) && len(strings.Fields(line)) >= fewWords
}

// measure adds an answer to the statistics of endings.
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

// A cutLength is a length in characters at which answers stop after a letter.
type cutLength struct {
	n         int
	first     place
	different map[recordHash]bool // some of them
	lastWords [8]int              // by length
}

// Examined lengths: shorter answers are labels, and longer ones have too many distinct lengths to
// count each.
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

// isCut reports whether answers of this length were truncated: unusually many have it, and their last
// words have several lengths, unlike texts made from a pattern.
func (l *cutLength) isCut(answers int) bool {
	several := 0
	for _, n := range l.lastWords {
		if n > 0 && 2*n <= l.n {
			several++
		}
	}
	return l.n >= fewAnswers && 5*l.n >= answers && several >= 3
}

// find adds the findings.
func (c *answerCensus) find(add addFinding) {
	for _, length := range slices.Sorted(maps.Keys(c.lengths)) {
		if l := c.lengths[length]; l.isCut(c.answers) {
			add(cutAnswers, true, l.n, fmt.Sprintf("%s of %d end after %d characters, within a word or sentence, first %v: they were cut, and the model learns to stop there",
				counted.Of(l.n, "answer"), c.answers, length, l.first))
		}
	}
	if c.open >= fewAnswers && 10*c.open >= c.open+c.ended {
		add(cutAnswers, true, c.open, fmt.Sprintf("%s of %d with several sentences end in the middle of a sentence, first %v: they were cut, and the model learns to stop there",
			counted.Of(c.open, "answer"), c.open+c.ended, c.firstOpen))
	}
	if top := c.same.top; top != nil && top.n >= 2*fewAnswers && c.same.isMost(c.answers) {
		add(sameAnswers, true, top.n, fmt.Sprintf("%d of %s are %q, first %v: the model learns to answer everything with it", top.n, counted.Of(c.answers, "answer"), shortened(c.same.text), top.first))
	}
	if top := c.questions.top; top != nil && top.n >= fewAnswers && 5*top.n >= c.records {
		add(manyAnswers, 2*top.n >= c.records, top.n, fmt.Sprintf("%d of %s ask the same question, %q, but have different answers, first %v", top.n, counted.Of(c.records, "record"), shortened(c.questions.text), top.first))
	}
}

// isMost reports whether nearly all answers equal the most frequent one; the more the text looks like
// a label, the larger its share must be.
func (t *tally) isMost(answers int) bool {
	if strings.ContainsFunc(t.text, unicode.IsSpace) {
		return 4*t.top.n >= 3*answers
	}
	return 50*t.top.n >= 49*answers
}

// shortened returns the beginning of a text.
func shortened(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// String formats the place as errors do.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }
