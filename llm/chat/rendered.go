package chat

import "sort"

// Rendered is a rendered conversation, with the origin of each of its bytes.
type Rendered struct {
	Text string
	// Spans cover Text without a gap.
	Spans []Span

	template     *Template
	conversation *Conversation
	options      *Options
	generated    []byteRange // by generation tags
}

// Span is a chunk of text of one origin: Text[From:To].
type Span struct {
	From, To int
	// Message is the index of the message that the bytes are of; -1 if they are of none. Mark-up is of the message in
	// whose turn the template writes it: in the body of a loop, the message that the loop is at.
	Message int
	Part    Part
}

// IsMarkup reports whether all of Text[from:to] is written by the template, or is a variable such as bos_token, so that
// special tokens in it are meant as such. In the words of a message they are text.
func (r *Rendered) IsMarkup(from, to int) bool {
	first := sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].To > from })
	for _, s := range r.Spans[first:] {
		if s.From >= to {
			break
		}
		if s.Part != Markup && s.Part != Variable {
			return false
		}
	}
	return true
}

func spans(t text) []Span {
	var out []Span
	t.eachRun(0, len(t.s), func(chunk string, o origin) {
		from := 0
		if n := len(out); n > 0 {
			from = out[n-1].To
		}
		out = append(out, Span{from, from + len(chunk), int(o.message) - 1, o.part})
	})
	return out
}
