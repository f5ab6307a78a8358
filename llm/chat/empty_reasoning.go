package chat

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// EmptyReasoning says whether the empty block of reasoning is trained that some templates write into answers that have
// no reasoning. A model that is trained to write it learns not to reason; one that is not writes what it wrote before.
type EmptyReasoning int

// What can be done with empty blocks.
const (
	// AsPrompted trains them as far as the generation prompt does not have them: what it has, the model never writes.
	AsPrompted EmptyReasoning = iota
	// TrainEmpty trains them.
	TrainEmpty
	// MaskEmpty leaves them in the text, and does not train them.
	MaskEmpty
)

var emptyReasoningNames = []string{"prompt", "train", "mask"}

// String is the name, as ParseEmptyReasoning takes it.
func (e EmptyReasoning) String() string { return nameOf(e, emptyReasoningNames) }

// ParseEmptyReasoning parses prompt, train or mask.
func ParseEmptyReasoning(name string) (EmptyReasoning, error) {
	return byName[EmptyReasoning](name, emptyReasoningNames, "treatment %q of empty reasoning")
}

// EmptyReasoning are the empty blocks of reasoning in answers that have none, or whose reasoning the template leaves out:
// the mark-up that it writes around a reasoning, with nothing in it, before the first word of the answer.
func (r *Rendered) EmptyReasoning() []Span {
	if r.template == nil { // nobody has rendered it
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

// What mark-up ends with: a token, as firstToken knows them, or a word.
var (
	lastToken = regexp.MustCompile(`(?:<[^<>\s]+>|\[[^\[\]\s]+\])$`)
	lastWord  = regexp.MustCompile(`\S+$`)
)

// emptyReasoningPattern matches the mark-up around a reasoning without a word in it, and the white space behind it, as an
// answer with a reasoning has it; nil if the template has no such mark-up.
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

// withEmptyReasoning applies Options.EmptyReasoning to the turns from a first message on.
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
		if r.options.EmptyReasoning == MaskEmpty { // what separates the block goes with it
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

// without gives ranges without the bytes of holes. Both are in order.
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
