package tokenizer

import (
	"errors"
	"io"
	"iter"
	"strings"
)

// EncodeOptions says where special tokens come from. The zero value encodes
// plain text.
type EncodeOptions struct {
	// AddSpecial puts BOS in front and EOS behind where the model wants them
	// (Config.AddBOS and Config.AddEOS).
	AddSpecial bool
	// ParseSpecial reads the texts of control tokens in the text as those
	// tokens. User-defined tokens are always read.
	ParseSpecial bool
}

// Encode returns the ids of text. Any text is accepted, in time linear in its
// length but for a factor log n in a single word of length n.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []ID {
	if t.NumTokens() == 0 {
		return nil
	}
	s := t.newStream(o)
	s.out.ids = make([]ID, 0, len(text)/3+2)
	s.encode(text)
	return s.out.ids
}

// EncodeReader yields the ids that Encode gives for the whole text of r, a
// slice at a time, which is valid until the next. An error of r ends them.
//
// It holds some megabytes in memory, however long the text and its words are.
// Longer than that is only what cannot be encoded before its end is seen: white
// space in a row, special tokens that overlap in a row, and a word of a
// vocabulary in which merges near its end can change tokens near its beginning.
func (t *Tokenizer) EncodeReader(r io.Reader, o EncodeOptions) iter.Seq2[[]ID, error] {
	return func(yield func([]ID, error) bool) {
		if t.NumTokens() == 0 {
			yield(nil, errors.New("the tokenizer is nil or a zero value; New makes one"))
			return
		}
		t.newStream(o).read(r, yield)
	}
}

// Segment is a part of a text that comes from one source.
type Segment struct {
	Text string
	// ParseSpecial reads the texts of control tokens in it as those tokens. It
	// is for text that the program writes, such as the mark-up of a chat, not
	// for text that it is given.
	ParseSpecial bool
}

// EncodeSegments returns the ids of the joined texts of segments, as if they
// were encoded at once: tokens may reach from one segment into the next. Control
// tokens are recognised only where all of their text is in segments with
// ParseSpecial, so that the others cannot forge them, not even in part. The
// options' ParseSpecial has no effect.
//
// Token i has the bytes from ends[i-1], or 0, to ends[i] of the joined text. A
// token without text of its own, such as an added BOS or a space prefix, has
// none; one that strips the white space behind it has that too; bytes that the
// vocabulary has no token for belong to the next token, if there is one. Where
// tokens divide what stands for one byte of the text (a space as "▁", an
// invalid byte as U+FFFD), the last of them has the byte.
func (t *Tokenizer) EncodeSegments(segments []Segment, o EncodeOptions) (ids []ID, ends []int) {
	if t.NumTokens() == 0 {
		return nil, nil
	}
	var text strings.Builder
	var parse []byteRange
	for _, segment := range segments {
		from := text.Len()
		text.WriteString(segment.Text)
		if !segment.ParseSpecial || segment.Text == "" {
			continue
		}
		if n := len(parse); n > 0 && parse[n-1].to == from {
			parse[n-1].to = text.Len()
		} else {
			parse = append(parse, byteRange{from, text.Len()})
		}
	}
	s := t.newStream(o)
	s.parse, s.whole = parse, text.String()
	n := text.Len()/3 + 2
	s.out = output{ids: make([]ID, 0, n), ends: make([]int, 0, n), wantEnds: true}
	s.encode(s.whole)
	return s.out.ids, s.out.ends
}

// output collects tokens.
type output struct {
	ids      []ID
	ends     []int // where each token ends in the text
	wantEnds bool
}

func (o *output) add(id ID, end int) {
	o.ids = append(o.ids, id)
	if o.wantEnds {
		o.ends = append(o.ends, end)
	}
}

// offsets maps offsets in normalized text, in increasing order, to offsets in
// the text itself.
type offsets struct {
	model model
	raw   string // what is not passed yet
	pos   int    // offset of raw in the text
	ahead int    // its offset in the normalized text
}

// of maps an offset in normalized text to an offset in the text: to the beginning of the unit if it
// lies inside one that normalization has changed.
func (o *offsets) of(normalized int) int {
	for o.raw != "" {
		n, grown := o.model.normalizedLen(o.raw)
		if o.ahead+grown > normalized {
			if n == grown {
				return o.pos + max(0, normalized-o.ahead)
			}
			break
		}
		o.ahead += grown
		o.pos += n
		o.raw = o.raw[n:]
	}
	return o.pos
}
