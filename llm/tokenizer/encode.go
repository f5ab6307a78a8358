package tokenizer

import "strings"

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
	var parse []byteRange
	if o.ParseSpecial {
		parse = []byteRange{{0, len(text)}}
	}
	out := output{ids: make([]ID, 0, len(text)/3+2)}
	t.encode(&out, text, parse, o.AddSpecial)
	return out.ids
}

// Part is a part of a text that comes from one source.
type Part struct {
	Text string
	// ParseSpecial reads the texts of control tokens in it as those tokens. It
	// is for text that the program writes, such as the mark-up of a chat, not
	// for text that it is given.
	ParseSpecial bool
}

// EncodeParts returns the ids of the joined texts of parts, as if they were
// encoded at once: tokens may reach from one part into the next. Control tokens
// are recognised only where all of their text is in parts with ParseSpecial, so
// that other parts cannot forge them, not even in part. The options'
// ParseSpecial has no effect.
//
// Token i has the bytes from ends[i-1], or 0, to ends[i] of the joined text. A
// token without text of its own, such as an added BOS or a space prefix, has
// none; one that strips the white space behind it has that too; bytes that the
// vocabulary has no token for belong to the next token, if there is one. Where
// tokens divide what stands for one byte of the text (a space as "▁", an
// invalid byte as U+FFFD), the last of them has the byte.
func (t *Tokenizer) EncodeParts(parts []Part, o EncodeOptions) (ids []ID, ends []int) {
	var text strings.Builder
	var parse []byteRange
	for _, p := range parts {
		from := text.Len()
		text.WriteString(p.Text)
		if !p.ParseSpecial || p.Text == "" {
			continue
		}
		if n := len(parse); n > 0 && parse[n-1].to == from {
			parse[n-1].to = text.Len()
		} else {
			parse = append(parse, byteRange{from, text.Len()})
		}
	}
	n := text.Len()/3 + 2
	out := output{ids: make([]ID, 0, n), ends: make([]int, 0, n), wantEnds: true}
	t.encode(&out, text.String(), parse, o.AddSpecial)
	return out.ids, out.ends
}

// encode appends the tokens of text. Control tokens are matched in the ranges
// parse.
func (t *Tokenizer) encode(out *output, text string, parse []byteRange, addSpecial bool) {
	if addSpecial && t.cfg.AddBOS {
		out.add(t.cfg.BOS, 0)
	}
	afterSpecial := true
	for _, f := range t.partition(text, parse) {
		if f.id != None {
			out.add(f.id, f.to)
			afterSpecial = true
			continue
		}
		t.encodePlain(out, text, f.byteRange, afterSpecial)
		afterSpecial = false
	}
	if addSpecial && t.cfg.AddEOS {
		out.add(t.cfg.EOS, len(text))
	}
}

// encodePlain appends the tokens of a range of text without special tokens.
func (t *Tokenizer) encodePlain(out *output, text string, r byteRange, afterSpecial bool) {
	first := len(out.ids)
	raw := text[r.from:r.to]
	prefix := ""
	if afterSpecial && t.cfg.AddSpacePrefix && t.cfg.Model == ModelSPM {
		prefix = " "
	}
	t.model.encode(out, prefix+raw)
	if !out.wantEnds {
		return
	}
	at := offsets{model: t.model, raw: raw, pos: r.from}
	if prefix != "" {
		_, at.ahead = t.model.normalizedLen(prefix)
	}
	for i, end := range out.ends[first:] {
		out.ends[first+i] = at.of(end)
	}
}

// output collects tokens.
type output struct {
	ids []ID
	// ends has where each token ends in the text, if wanted. A model's encoder
	// counts in the text of one call as it normalizes it.
	ends     []int
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
	model encoder
	raw   string // what is not passed yet
	pos   int    // offset of raw in the text
	ahead int    // its offset in the normalized text
}

// of is the offset in the text of an offset in normalized text, and that of
// the unit where it lies in the middle of one that has changed.
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
