// Package tokenizer turns text into token ids and back, for the vocabularies that GGUF files carry: SentencePiece
// pieces merged by their scores (model "llama"), byte-pair encoding of bytes (model "gpt2") or of characters
// (model "gemma4", and some pre-tokenizers of "gpt2"), pieces with the largest sum of scores (models "t5" and
// "plamo3"), and the longest pieces of words (model "bert", WordPiece) or of the text (model "rwkv"). Ids and
// bytes equal what llama.cpp computes from the same file.
//
// # Getting a tokenizer
//
// [FromMetadata] reads the tokenizer.ggml.* keys of a model, [New] accepts any [Config], and [TrainBPE] trains a
// vocabulary on text. [Tokenizer.KeyValues] returns the keys for a GGUF file.
//
// # Encoding
//
// Special tokens come into the ids in two ways, and each has its own switch in
// [EncodeOptions]: AddSpecial puts BOS and EOS around the text where the model
// wants them, ParseSpecial reads the texts of control tokens such as
// <|im_end|>. Text from users should be encoded without ParseSpecial, or it can
// forge turns of a conversation.
//
// Any string is accepted. A SentencePiece vocabulary with byte pieces keeps
// invalid UTF-8; byte-pair encoding, like its reference, replaces each invalid
// byte by U+FFFD first.
//
// # Decoding
//
// [Tokenizer.Decode] decodes IDs at once, a [Decoder] as they are generated. A token may hold part of a character, so
// the text of some of a sequence's tokens need not be valid UTF-8.
//
// # Concurrency
//
// A Tokenizer does not change after it is made and may be used by any number
// of goroutines. A Decoder belongs to one.
package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tokenizer encodes text and decodes ids with one vocabulary. It is safe for concurrent use.
type Tokenizer struct {
	cfg    Config
	texts  []string      // token texts, none empty
	ids    map[string]ID // id by token text
	attrs  []attr
	pieces []string // bytes of each token when it is shown

	eot        ID
	eog        map[ID]bool
	special    []ID // tokens to match in text, longest first
	starts     *specialStarts
	stripRight map[ID]bool

	cleanSpaces bool
	blanks      bool // tokens contain ▁ for blanks
	model       model
	sizes       sizes
	idle        *idleStreams
	trie        func() []TrieNode // made once
}

// A model turns text into tokens.
type model interface {
	// normalize returns the normalized text of raw[:n], which does not depend on what follows; last means that
	// nothing follows raw.
	normalize(raw string, last bool) (text string, n int)
	// normalizedLen returns the length of the first unit of raw (a character, or a replaced byte), and the length of
	// its normalized text.
	normalizedLen(raw string) (n, normalized int)
	// split yields the words of text in order; together they are the text. No token spans two words.
	split(text string, yield func(word string))
	// settled returns an offset: words that end before it stay words however the text continues.
	settled(text string) int
	// inside returns an offset in text, the beginning of an unfinished word, at which the word can be cut: the rest
	// ends where the word ends. It returns 0 if there is none.
	inside(text string) int
	// newMerger returns a merger for one goroutine.
	newMerger() merger
}

// New makes a tokenizer from a copy of cfg. It fails if cfg is inconsistent or contains a token twice; the error
// names the field and the index.
func New(cfg Config) (*Tokenizer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Tokenizer{cfg: cfg.clone(), stripRight: map[ID]bool{}, sizes: defaultSizes, idle: &idleStreams{}}
	if err := t.index(); err != nil {
		return nil, err
	}
	for _, id := range t.cfg.StripRight {
		t.stripRight[id] = true
	}
	t.findSpecial()
	if err := t.makeModel(); err != nil {
		return nil, err
	}
	t.pieces = make([]string, len(t.texts))
	for id := range t.pieces {
		t.pieces[id] = t.piece(ID(id))
	}
	t.trie = sync.OnceValue(t.makeTrie)
	return t, nil
}

func (t *Tokenizer) makeModel() error {
	switch {
	case t.cfg.isBPE():
		rule, err := lookupPre(t.cfg.Pre)
		if err != nil {
			return err
		}
		t.cfg.Pre = canonicalPre(t.cfg.Pre)
		t.cleanSpaces, t.blanks = rule.cleanSpaces, rule.blanks
		t.model = newBPE(t, rule)
	case t.cfg.Model == ModelRWKV:
		t.model = newRWKV(t)
	case t.cfg.Model == ModelBERT:
		t.blanks, t.cleanSpaces = true, true
		t.model = newWordPiece(t)
	case t.cfg.Model == ModelT5:
		t.blanks = true
		u, err := newT5(t)
		if err != nil {
			return err
		}
		t.model = u
	case t.cfg.Model == ModelPLaMo3:
		u, err := newUnigram(t)
		if err != nil {
			return err
		}
		t.model = u
	default:
		t.blanks = true
		t.model = newSPM(t)
	}
	return nil
}

// index maps token texts to ids.
func (t *Tokenizer) index() error {
	t.texts = make([]string, len(t.cfg.Tokens))
	t.ids = make(map[string]ID, len(t.cfg.Tokens))
	for i, text := range t.cfg.Tokens {
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", i)
		}
		if other, ok := t.ids[text]; ok {
			return fmt.Errorf("tokenizer: tokens %d and %d are both %q; their texts must differ", other, i, text)
		}
		t.texts[i] = text
		t.ids[text] = ID(i)
	}
	return nil
}

// piece returns the bytes that a token stands for.
func (t *Tokenizer) piece(id ID) string {
	text, a := t.texts[id], t.attrs[id]
	switch {
	case t.cfg.Model == ModelRWKV:
		return unescape(text)
	case a&(attrHidden|attrUserDefined) != 0:
		return text
	case a&attrNormal != 0 && t.blanks:
		return strings.ReplaceAll(text, space, " ")
	case a&attrNormal != 0 && !t.cfg.isBPE():
		return text
	case a&attrNormal != 0:
		return decodePiece(text)
	case a&attrByte != 0:
		b, _ := parseByteToken(text)
		return string([]byte{b})
	}
	return "" // unused and undefined tokens
}

// decodePiece decodes a byte-level token. Characters that stand for no byte are kept, so that a wrong vocabulary
// shows.
func decodePiece(text string) string {
	if raw, ok := decodeBytes(text); ok {
		return raw
	}
	var b strings.Builder
	for rest := sanitize(text); rest != ""; {
		r, n := decodeRune(rest)
		if c, ok := runeBytes[r]; ok {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "[UNK_BYTE_0x%x%s]", rest[:n], text)
		}
		rest = rest[n:]
	}
	return b.String()
}

// NumTokens returns the size of the vocabulary; ids run from 0 to NumTokens()-1. It is 0 for nil and for a zero
// value, which encode any text to no tokens.
func (t *Tokenizer) NumTokens() int {
	if t == nil {
		return 0
	}
	return len(t.texts)
}

// BOS returns the beginning-of-sequence token, or None.
func (t *Tokenizer) BOS() ID { return t.cfg.BOS }

// EOS returns the end-of-sequence token, or None.
func (t *Tokenizer) EOS() ID { return t.cfg.EOS }

// EOT returns the end-of-turn token, or None. If the configuration has none, it is found by its text.
func (t *Tokenizer) EOT() ID { return t.eot }

// Unknown returns the unknown token, or None.
func (t *Tokenizer) Unknown() ID { return t.cfg.Unknown }

// Padding returns the padding token, or None.
func (t *Tokenizer) Padding() ID { return t.cfg.Padding }

// Separator returns the token between two texts that are encoded together, or None.
func (t *Tokenizer) Separator() ID { return t.cfg.Separator }

// AddsBOS reports whether Encode with AddSpecial starts with BOS.
func (t *Tokenizer) AddsBOS() bool { return t.cfg.AddBOS }

// AddsEOS reports whether Encode with AddSpecial ends with EOS.
func (t *Tokenizer) AddsEOS() bool { return t.cfg.AddEOS }

// ending returns the token that Encode with AddSpecial ends with, or None.
func (t *Tokenizer) ending() ID {
	switch {
	case t.cfg.Model == ModelBERT:
		return t.cfg.Separator
	case t.cfg.AddEOS:
		return t.cfg.EOS
	}
	return None
}

// IsEOG reports whether id ends a generation: EOS, EOT and similar tokens.
func (t *Tokenizer) IsEOG(id ID) bool { return t.eog[id] }

// EOGs returns the tokens that end a generation, in ascending order.
func (t *Tokenizer) EOGs() []ID {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.eog))
}

// IsSpecial reports whether id is a control or unknown token, which decoding omits by default.
func (t *Tokenizer) IsSpecial(id ID) bool {
	return t.has(id) && t.attrs[id]&attrHidden != 0
}

// IsText reports whether a token is a part of words, neither special nor mark-up that the vocabulary defines.
func (t *Tokenizer) IsText(id ID) bool {
	return t.has(id) && t.attrs[id]&(attrHidden|attrUserDefined) == 0
}

// TokenID returns the id of the token with this text, as the vocabulary
// writes it ("▁the" or "Ġthe", not " the").
func (t *Tokenizer) TokenID(text string) (ID, bool) {
	id, ok := t.ids[text]
	return id, ok
}

// TokenText returns the text of a token as the vocabulary writes it, or "" for an id outside the vocabulary.
func (t *Tokenizer) TokenText(id ID) string {
	if !t.has(id) {
		return ""
	}
	return t.texts[id]
}

// ChatTemplate returns the Jinja source of the model's chat template; "" without one, or for nil.
func (t *Tokenizer) ChatTemplate() string {
	if t == nil {
		return ""
	}
	return t.cfg.ChatTemplate
}

// Config returns a copy of the configuration.
func (t *Tokenizer) Config() Config { return t.cfg.clone() }

func (t *Tokenizer) has(id ID) bool { return id >= 0 && int(id) < t.NumTokens() }
