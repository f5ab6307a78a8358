package distill

import (
	"errors"
	"strings"
	"unicode"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// An aligned is a sample in the teacher's vocabulary.
type aligned struct {
	tokens []tokenizer.ID // up to the last that is needed
	at     []int          // for each trained token of the sample: the index of the teacher's token before it, or -1
}

// add adds the teacher's token that is aligned with the next trained token of the sample, or -1.
func (y *aligned) add(of int, tokens []tokenizer.ID) {
	if of < 1 { // nothing predicts the first token
		y.at = append(y.at, -1)
		return
	}
	y.at, y.tokens = append(y.at, of-1), tokens[:of+1]
}

// said returns the indices of the aligned trained tokens, and of the teacher's tokens before them.
func (y *aligned) said() (trained, at []int) {
	for i, before := range y.at {
		if before >= 0 {
			trained, at = append(trained, i), append(at, before)
		}
	}
	return trained, at
}

// align encodes a sample for the teacher: by its own template, if there is one, else as the text that the student reads.
func (o *ScorerOptions) align(x data.Sample) (aligned, error) {
	if o.Own != nil && x.Words != nil {
		own, has, err := o.Own(x)
		if err != nil {
			return aligned{}, err
		}
		if has {
			return o.Alignment.words(x, own), nil
		}
	}
	return o.Alignment.text(x), nil
}

// text encodes the whole text of a sample for the teacher. Special tokens without a counterpart are written as text.
func (a *Alignment) text(x data.Sample) (y aligned) {
	var segments []tokenizer.Segment
	ends, length := make([]int, len(x.Tokens)), 0
	add := func(text string, special bool) {
		segments = append(segments, tokenizer.Segment{Text: text, ParseSpecial: special})
		length += len(text)
	}
	if a.teacher.AddsBOS() {
		add(a.teacher.TokenText(a.teacher.BOS()), true)
	}
	afterSpecial, prefix := true, a.student.Config().AddSpacePrefix
	for i, id := range x.Tokens {
		text, isText := textOf(a.student, id)
		switch of := a.counterpart(id); {
		case i == 0 && id == a.student.BOS(): // the teacher has its own
		case isText:
			if afterSpecial && prefix {
				text = strings.TrimPrefix(text, " ")
			}
			add(text, false)
		case of != tokenizer.None:
			add(a.teacher.TokenText(of), true)
		default:
			add(a.student.TokenText(id), false)
		}
		afterSpecial, ends[i] = !isText, length
	}
	tokens, theirs := a.teacher.EncodeSegments(segments, tokenizer.EncodeOptions{})
	j := 0
	for _, i := range train.TrainedTokens(x) {
		from, to, of := ends[i], ends[i+1], -1
		for j < len(tokens) && theirs[j] < to {
			j++
		}
		if from < to && j > 0 && j < len(tokens) && theirs[j-1] == from && theirs[j] == to && tokens[j] == a.counterpart(x.Tokens[i+1]) {
			of = j
		}
		y.add(of, tokens)
	}
	return y
}

// words aligns the trained words of two samples of the same conversation, each with its model's template, and the ends of
// the answers.
func (a *Alignment) words(x, own data.Sample) (y aligned) {
	at, answers := wordsOf(a.student, x)
	theirs, their := wordsOf(a.teacher, own)
	of := map[place]int{}
	for j, p := range theirs {
		of[p] = j
	}
	for _, i := range train.TrainedTokens(x) {
		p, found := at[i+1], -1
		if j, has := of[p]; has && p.to > p.from && same(answers, their, p.answer) && own.Tokens[j] == a.counterpart(x.Tokens[i+1]) {
			found = j
		}
		y.add(found, own.Tokens)
	}
	return y
}

// same reports whether two samples have the same answer; the last of the first sample may be cut.
func same(x, own []string, answer int) bool {
	return answer < len(own) && (x[answer] == own[answer] || answer == len(x)-1 && strings.HasPrefix(own[answer], x[answer]))
}

// A place is the bytes of a token in an answer. It is empty if the token is of none.
type place struct{ answer, from, to int }

// wordsOf returns the places of a sample's tokens in its trained words, and the answers: words that follow each other,
// without white space around, since templates put some there. The token behind that ends an answer counts as a byte.
func wordsOf(t *tokenizer.Tokenizer, s data.Sample) (at []place, answers []string) {
	at = make([]place, len(s.Tokens))
	isWord := func(i int) bool {
		return i > 0 && i < min(len(s.Tokens), len(s.Words)) && s.Words[i] && (s.LossWeights == nil || i <= len(s.LossWeights) && s.LossWeights[i-1] != 0)
	}
	for i := 1; i < len(s.Tokens); i++ {
		if !isWord(i) {
			continue
		}
		var all strings.Builder
		ends, first := []int{0}, i
		for ; isWord(i); i++ {
			all.Write(t.Piece(s.Tokens[i]))
			ends = append(ends, all.Len())
		}
		answer := strings.TrimLeftFunc(all.String(), unicode.IsSpace)
		left := all.Len() - len(answer)
		answer = strings.TrimRightFunc(answer, unicode.IsSpace)
		within := func(end int) int { return min(max(0, end-left), len(answer)) }
		for n := range i - first {
			at[first+n] = place{len(answers), within(ends[n]), within(ends[n+1])}
		}
		if i < len(s.Tokens) && t.IsEOG(s.Tokens[i]) {
			at[i] = place{len(answers), len(answer), len(answer) + 1}
		}
		answers = append(answers, answer)
	}
	return at, answers
}

// Aligned says how much of data sets is aligned.
type Aligned struct {
	Trained int // tokens
	Aligned int // of these
	Longest int // number of predicted tokens of the longest sample in the teacher's vocabulary
}

// Share returns the aligned share of the trained tokens.
func (a Aligned) Share() float64 { return float64(a.Aligned) / float64(max(1, a.Trained)) }

// Measure says how much of the samples that the teacher scores is aligned with its vocabulary.
func (o *Options) Measure(sets ...*data.Dataset) (n Aligned, err error) {
	if o == nil {
		return n, errors.New("the options are nil")
	}
	if err := o.Alignment.check(); err != nil {
		return n, err
	}
	err = o.eachSample(sets, func(x data.Sample) error {
		y, err := o.align(x)
		trained, _ := y.said()
		n.Trained, n.Aligned, n.Longest = n.Trained+len(y.at), n.Aligned+len(trained), max(n.Longest, len(y.tokens)-1)
		return err
	})
	return n, err
}
