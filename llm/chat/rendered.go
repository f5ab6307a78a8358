package chat

import (
	"sort"
	"strings"
	"unicode"
)

// Rendered is a rendered conversation with the source of each byte.
type Rendered struct {
	Text string
	// Spans cover Text without a gap.
	Spans []Span

	template     *Template
	conversation *Conversation
	options      *Options
	given        []unit
	generated    []byteRange // inside generation tags
}

// Span is Text[From:To], bytes of one message and one source.
type Span struct {
	From, To int
	// Message is the index of the bytes' message, or -1. Mark-up belongs to the message in whose turn the template
	// writes it: inside a loop over messages, the current one.
	Message int
	Source  Source
}

// IsMarkup reports whether all of Text[from:to] is mark-up, so that it may be parsed for special tokens. Mark-up is the
// template's text, a variable such as bos_token, or a role of one word, which templates turn into tokens (<|user|>).
// Special tokens in a message's words are plain text.
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

// spanAt returns the index of the first span that ends after byte at.
func (r *Rendered) spanAt(at int) int {
	return sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].To > at })
}

func (r *Rendered) isMarkup(s Span) bool {
	return s.Source.isFrame() && (s.Source != Role || isWord(r.Text[s.From:s.To]))
}

// isWord reports whether a text consists of letters, digits, _ and -, so that it contains no special token.
func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) < 0
}

// Chunk is Text[From:To], either entirely mark-up in the sense of [Rendered.IsMarkup] or entirely not.
type Chunk struct {
	From, To int
	Markup   bool
}

// Chunks splits the text for a tokenizer: only chunks of mark-up may contain special tokens. They cover Text without a
// gap.
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
