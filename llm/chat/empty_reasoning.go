package chat

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// EmptyReasoning selects whether to train the empty reasoning block that some templates write into answers without
// reasoning. Training it teaches the model not to reason; masking it leaves the model's reasoning as it was.
type EmptyReasoning int

// Treatments of empty reasoning blocks.
const (
	// AsPrompted trains the part of a block that the generation prompt does not contain: the model never writes the
	// prompt.
	AsPrompted EmptyReasoning = iota
	// TrainEmpty trains whole blocks.
	TrainEmpty
	// MaskEmpty keeps blocks in the text but does not train them.
	MaskEmpty
)

var emptyReasoningNames = []string{"prompt", "train", "mask"}

// String returns the name that ParseEmptyReasoning accepts.
func (e EmptyReasoning) String() string { return nameOf(e, emptyReasoningNames) }

// ParseEmptyReasoning parses prompt, train or mask.
func ParseEmptyReasoning(name string) (EmptyReasoning, error) {
	return byName[EmptyReasoning](name, emptyReasoningNames, "treatment %q of empty reasoning")
}

// EmptyReasoning returns the empty reasoning blocks: the template's reasoning mark-up with nothing inside, before the
// first word of an answer that has no reasoning or whose reasoning the template omits.
func (r *Rendered) EmptyReasoning() []Span {
	if r.template == nil { // not rendered by a template
		return nil
	}
	pattern := r.emptyReasoningPattern()
	if pattern == nil {
		return nil
	}
	var out []Span
	chunks := r.chunks()
	for i, m := range r.conversation.Messages {
		if !m.isAssistant() {
			continue
		}
		for _, chunk := range turnChunks(i, chunks[i]) {
			begin, word, _ := r.edges(i, chunk)
			if at := pattern.FindAllStringIndex(r.Text[begin:word], -1); at != nil {
				last := at[len(at)-1]
				out = append(out, Span{begin + last[0], begin + last[1], i, Markup})
			}
		}
	}
	return out
}

// The end of mark-up: a token as firstToken defines it, or a word.
var (
	lastToken = regexp.MustCompile(`(?:<[^<>\s]+>|\[[^\[\]\s]+\])$`)
	lastWord  = regexp.MustCompile(`\S+$`)
)

// emptyReasoningPattern matches the reasoning mark-up with only white space inside, and the white space that follows it
// in an answer with reasoning. It is nil if the template has no such mark-up.
func (r *Rendered) emptyReasoningPattern() *regexp.Regexp {
	if !slices.ContainsFunc(reasoningKeys, func(key string) bool { return strings.Contains(r.template.Source(), key) }) {
		return nil
	}
	answer := r.message("assistant", "A")
	answer.SetText(reasoningKeys[0], "R")
	probe := r.probe(r.message("user", "Q"), answer)
	if probe == nil {
		return nil
	}
	at := slices.IndexFunc(probe.Spans, func(s Span) bool { return s.Message == 1 && s.Source == Reasoning })
	if at < 0 {
		return nil
	}
	words := probe.Spans[at]
	before := strings.TrimRightFunc(probe.Text[probe.wordsEnd(words.From):words.From], jinja.IsSpace)
	opening := cmp.Or(lastToken.FindString(before), lastWord.FindString(before))
	closing := firstToken(probe.Text[words.To:probe.nextWord(words.To)])
	if opening == "" || closing == "" {
		return nil
	}
	return regexp.MustCompile(regexp.QuoteMeta(opening) + `\s*` + regexp.QuoteMeta(closing) + `\s*`)
}

// withEmptyReasoning applies Options.EmptyReasoning to the turns of messages[first:].
func (r *Rendered) withEmptyReasoning(turns []byteRange, first int) []byteRange {
	if r.options.EmptyReasoning == AsPrompted {
		return turns
	}
	var blocks []byteRange
	for _, block := range r.EmptyReasoning() {
		if block.Message < first {
			continue
		}
		from := block.From
		if r.options.EmptyReasoning == MaskEmpty { // mask the separator of the block, too
			from = len(strings.TrimRightFunc(r.Text[:from], jinja.IsSpace))
		}
		blocks = append(blocks, byteRange{from, block.To})
	}
	byPlace := func(a, b byteRange) int { return a.from - b.from }
	slices.SortFunc(blocks, byPlace)
	turns = without(turns, blocks)
	if r.options.EmptyReasoning == TrainEmpty {
		turns = append(turns, blocks...)
		slices.SortFunc(turns, byPlace)
	}
	return turns
}

// without returns ranges minus holes. Both are sorted.
func without(ranges, holes []byteRange) []byteRange {
	var out []byteRange
	for _, x := range ranges {
		for len(holes) > 0 && holes[0].to <= x.from {
			holes = holes[1:]
		}
		for _, hole := range holes {
			if hole.from >= x.to {
				break
			}
			if x.from < hole.from {
				out = append(out, byteRange{x.from, hole.from})
			}
			x.from = max(x.from, hole.to)
		}
		if x.from < x.to {
			out = append(out, x)
		}
	}
	return out
}
