package chat

import (
	"sort"
	"strings"
	"unicode"
)

// Rendered is a rendered conversation, with the source of each of its bytes.
type Rendered struct {
	Text string
	// Spans cover Text without a gap.
	Spans []Span

	template     *Template
	conversation *Conversation
	options      *Options
	given        []unit
	generated    []byteRange // by generation tags
}

// Span is Text[From:To], all of which is of one message and one source.
type Span struct {
	From, To int
	// Message is the index of the message that the bytes are of; -1 if they are of none. Mark-up is of the message in
	// whose turn the template writes it: in the body of a loop, the message that the loop is at.
	Message int
	Source  Source
}

// IsMarkup reports whether all of Text[from:to] is mark-up, so that special tokens in it are meant as such: the template
// writes it, or it is a variable such as bos_token, or a role of one word, of which templates make tokens (<|user|>). In
// the words of a message special tokens are text.
func (r *Rendered) IsMarkup(from, to int) bool {
	for _, s := range r.Spans[r.spanAt(from):] {
		if s.From >= to {
			break
		}
		if !r.isMarkup(s) {
			return false
		}
	}
	return true
}

// spanAt is the index of the first span that ends behind a byte.
func (r *Rendered) spanAt(at int) int {
	return sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].To > at })
}

func (r *Rendered) isMarkup(s Span) bool {
	return s.Source.isFrame() && (s.Source != Role || isWord(r.Text[s.From:s.To]))
}

// isWord reports whether a text is of letters, digits, _ and -, so that it holds no special token by itself.
func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) < 0
}

// Chunk is Text[From:To], all of which is mark-up in the sense of [Rendered.IsMarkup], or none.
type Chunk struct {
	From, To int
	Markup   bool
}

// Chunks are the parts in which a tokenizer reads the text: only chunks of mark-up may hold special tokens. They cover
// Text without a gap.
func (r *Rendered) Chunks() []Chunk {
	var out []Chunk
	for _, s := range r.Spans {
		markup := r.isMarkup(s)
		if n := len(out); n > 0 && out[n-1].Markup == markup {
			out[n-1].To = s.To
			continue
		}
		out = append(out, Chunk{s.From, s.To, markup})
	}
	return out
}
