package tokenizer

import (
	"errors"
	"io"
	"iter"
	"strings"
)

// EncodeOptions select the sources of special tokens. The zero value encodes plain text.
type EncodeOptions struct {
	// AddSpecial adds a leading BOS and a trailing EOS as the model requires (Config.AddBOS and Config.AddEOS).
	AddSpecial bool
	// ParseSpecial encodes the texts of control tokens as those tokens. The texts of user-defined tokens always are.
	ParseSpecial bool
}

// Encode returns the ids of text. Any text is accepted. The time is linear in its length, and O(n log n) in the
// length n of a single word.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []ID {
	if t.NumTokens() == 0 {
		return nil
	}
	s := t.newStream(o)
	s.out.ids = make([]ID, 0, len(text)/3+2)
	s.encode(text)
	return s.out.ids
}

// EncodeReader yields the ids that Encode returns for the whole text of r, in slices that are valid until the next
// one. An error of r ends the iteration.
//
// It needs a few megabytes of memory, however long the text and its words are, except for text that cannot be
// encoded before its end is known: white space in a row, overlapping special tokens in a row, and words in
// vocabularies in which merges near a word's end can change tokens near its beginning.
func (t *Tokenizer) EncodeReader(r io.Reader, o EncodeOptions) iter.Seq2[[]ID, error] {
	return func(yield func([]ID, error) bool) {
		if t.NumTokens() == 0 {
			yield(nil, errors.New("the tokenizer is nil or a zero value; New makes one"))
			return
		}
		t.newStream(o).read(r, yield)
	}
}

// Segment is a part of a text from one source.
type Segment struct {
	Text string
	// ParseSpecial encodes the texts of control tokens in it as those tokens. Set it for text that the program
	// writes, such as the mark-up of a chat, not for text from others.
	ParseSpecial bool
}

// EncodeSegments returns the ids of the concatenated segments, encoded as one text: a token may span segments.
// Control tokens are recognised only if their whole text is in segments with ParseSpecial, so that other segments
// cannot forge them, not even in part. The options' ParseSpecial has no effect.
//
// Token i covers the bytes of the concatenated text from ends[i-1], or 0, to ends[i]. A token without text of its
// own, such as an added BOS or a space prefix, covers none; one that strips the white space behind it covers that,
// too; bytes without a token belong to the next token, if any. If several tokens spell what stands for one byte (a
// space as "▁", an invalid byte as U+FFFD), the last one covers the byte.
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
	ends     []int // end of each token in the text
	wantEnds bool
}

func (o *output) add(id ID, end int) {
	o.ids = append(o.ids, id)
	if o.wantEnds {
		o.ends = append(o.ends, end)
	}
}

// offsets maps increasing offsets in normalized text to offsets in the original text.
type offsets struct {
	model model
	raw   string // rest of the original text
	pos   int    // offset of raw in the original text
	ahead int    // offset of raw in the normalized text
}

// of maps an offset in normalized text to the original text. An offset inside a unit that normalization changed maps
// to the beginning of the unit.
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
