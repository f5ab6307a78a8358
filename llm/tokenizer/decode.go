package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// DecodeOptions select which ids become text. The zero value decodes as llama.cpp's detokenize does with both its
// switches off.
type DecodeOptions struct {
	// RemoveSpecial drops the leading BOS and the trailing EOS that Encode adds with AddSpecial. As in llama.cpp,
	// the space prefix of SPM text then stays if a BOS was dropped.
	RemoveSpecial bool
	// ShowSpecial writes the texts of control and unknown tokens.
	ShowSpecial bool
	// KeepSpaces keeps all spaces. Without it, vocabularies with certain pre-tokenizers lose the space in " ." and "
	// 's", so that decoding is not the inverse of encoding.
	KeepSpaces bool
	// Continuation means that the ids continue a sequence: a leading space is text, not the space prefix.
	Continuation bool
}

// Piece returns the bytes that id stands for: "<|im_end|>" for a control token, a part of a character for some
// tokens, nil for an id outside the vocabulary.
func (t *Tokenizer) Piece(id ID) []byte {
	if !t.has(id) {
		return nil
	}
	return []byte(t.pieces[id])
}

// Decode returns the text of ids. It is not valid UTF-8 if the ids start or stop within a character. Ids outside the
// vocabulary are skipped.
func (t *Tokenizer) Decode(ids []ID, opts DecodeOptions) string {
	strip := t.cfg.AddSpacePrefix && !opts.Continuation
	if opts.RemoveSpecial && t.cfg.AddBOS && len(ids) > 0 && ids[0] == t.cfg.BOS {
		ids = ids[1:]
		strip = false
	}
	if opts.RemoveSpecial && t.cfg.AddEOS && len(ids) > 0 && ids[len(ids)-1] == t.cfg.EOS {
		ids = ids[:len(ids)-1]
	}
	var b strings.Builder
	for i, id := range ids {
		b.WriteString(t.shown(id, opts.ShowSpecial, strip && i == 0))
	}
	if t.cleanSpaces && !opts.KeepSpaces {
		return cleanSpaces(b.String())
	}
	return b.String()
}

// shown returns the text that a token adds; strip removes one leading space.
func (t *Tokenizer) shown(id ID, special, strip bool) string {
	if !t.has(id) || !special && t.attrs[id]&attrHidden != 0 {
		return ""
	}
	if strip {
		return strings.TrimPrefix(t.pieces[id], " ")
	}
	return t.pieces[id]
}

// cleanSpaces undoes the spacing of pre-tokenized English: it removes spaces before ? ! . , and before 's 'm 're
// 've, and around a lone apostrophe.
func cleanSpaces(text string) string {
	return joinContractions(joinApostrophes(joinPunctuation(text)))
}

// joinPunctuation drops the space in " ?", " !", " ." and " ,".
func joinPunctuation(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if i > 0 && text[i-1] == ' ' && strings.IndexByte("?!.,", c) >= 0 {
			out = out[:len(out)-1]
		}
		out = append(out, c)
	}
	return string(out)
}

// joinApostrophes drops both spaces in " ' ".
func joinApostrophes(text string) string {
	out := make([]byte, 0, len(text))
	afterSpace := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\'' && afterSpace && i+1 < len(text) && text[i+1] == ' ' {
			out = append(out[:len(out)-1], c)
			afterSpace = false
			i++ // the space behind is gone, too, and cannot start a match
			continue
		}
		out = append(out, c)
		afterSpace = c == ' '
	}
	return string(out)
}

// joinContractions drops the space in " 's", " 'm", " 're" and " 've".
func joinContractions(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if i > 0 && text[i-1] == ' ' && startsContraction(text[i:]) {
			out = out[:len(out)-1]
		}
		out = append(out, text[i])
	}
	return string(out)
}

func startsContraction(text string) bool {
	for _, s := range []string{"'s", "'m", "'re", "'ve"} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}

// Decoder decodes ids one at a time. It returns text as soon as its characters are complete, so that it can be shown
// at once. All texts together equal the result of [Tokenizer.Decode] with KeepSpaces. It is used by one goroutine. A
// zero value has no vocabulary and returns no text.
type Decoder struct {
	t       *Tokenizer
	opts    DecodeOptions
	started bool
	strip   bool   // the next token loses the space prefix
	end     bool   // an EOS to drop if nothing follows
	partial string // bytes of an incomplete character
}

// NewDecoder returns a decoder at the beginning of a sequence. Options are as for Decode, with KeepSpaces implied. To
// decode what a model generates after a prompt, set Continuation.
func (t *Tokenizer) NewDecoder(opts DecodeOptions) *Decoder {
	return &Decoder{t: t, opts: opts, strip: t.cfg.AddSpacePrefix && !opts.Continuation}
}

// Push decodes the next id and returns the text that is now complete, often "".
func (d *Decoder) Push(id ID) string {
	if d.t == nil {
		return ""
	}
	cfg := &d.t.cfg
	first := !d.started
	d.started = true
	if first && d.opts.RemoveSpecial && cfg.AddBOS && id == cfg.BOS {
		d.strip = false
		return ""
	}
	var text string
	if d.end {
		text = d.show(cfg.EOS)
		d.end = false
	}
	if d.opts.RemoveSpecial && cfg.AddEOS && id == cfg.EOS {
		d.end = true
	} else {
		text += d.show(id)
	}
	return d.complete(text)
}

func (d *Decoder) show(id ID) string {
	s := d.t.shown(id, d.opts.ShowSpecial, d.strip)
	d.strip = false
	return s
}

// complete adds text to the bytes held back, and returns all but an incomplete character at the end.
func (d *Decoder) complete(text string) string {
	text = d.partial + text
	n := len(text) - partialLen(text)
	d.partial = text[n:]
	return text[:n]
}

// partialLen returns the length of an incomplete character at the end of text. Bytes that cannot start a character
// are complete.
func partialLen(text string) int {
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Flush ends the sequence and returns the bytes held back: an incomplete character. The decoder is then ready for a
// new sequence.
func (d *Decoder) Flush() string {
	if d.t == nil {
		return ""
	}
	rest := d.partial
	*d = *d.t.NewDecoder(d.opts)
	return rest
}
