//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// TestInteropWordPiece holds tokens of BERT's vocabularies against stock's, with each setting of the normaliser.
func TestInteropWordPiece(t *testing.T) {
	for _, seed := range seeds() {
		rng := seeded(t, seed)
		learned, texts := generatedTexts(rng, 1500), generatedTexts(rng, 500)
		for _, lower := range []bool{true, false} {
			for _, strip := range []bool{true, false} {
				t.Run(fmt.Sprintf("seed %s lower %v strip %v", seed, lower, strip), func(t *testing.T) {
					v := wordPieces(t, rng, learned)
					v = withKey(withKey(v, "normalizer.lowercase", lower), "normalizer.strip_accents", strip)
					compareTexts(t, v, texts)
				})
			}
		}
	}
}

// TestInteropWordPieceCodePoints looks at what each code point becomes.
func TestInteropWordPieceCodePoints(t *testing.T) {
	var texts []string
	var b strings.Builder
	known := map[rune]bool{}
	for r := rune(1); r < 0x32400; r++ {
		if r >= 0xD800 && r < 0xE000 || unicode.Is(unicode.Hangul, r) && r%41 != 0 {
			continue
		}
		known[r], known[unicode.ToLower(r)] = true, true
		fmt.Fprintf(&b, "a%[1]ca %[1]c1%[1]c.", r)
		if b.Len() > 2000 {
			texts = append(texts, b.String())
			b.Reset()
		}
	}
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁"}
	for _, r := range slices.Sorted(maps.Keys(known)) {
		if r != '▁' && r != 0 {
			tokens = append(tokens, string(r))
		}
	}
	for _, lower := range []bool{true, false} {
		v := bertVocabulary(t, tokens)
		compareTexts(t, withKey(withKey(v, "normalizer.lowercase", lower), "normalizer.strip_accents", lower), texts)
	}
}

// wordPieces has pieces of the words of texts, at their beginnings and behind.
func wordPieces(t *testing.T, rng *rand.Rand, texts []string) tokenizer.KeyValues {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	known := map[string]bool{}
	add := func(token string) {
		if !known[token] && token != "" {
			known[token] = true
			tokens = append(tokens, token)
		}
	}
	for _, text := range texts {
		for _, word := range strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")) {
			chars := []rune(strings.ToLower(word))
			for i, r := range chars {
				if rng.IntN(8) > 0 {
					add("▁" + string(r))
					add(string(r))
				}
				piece := string(chars[i:min(len(chars), i+2+rng.IntN(3))])
				if rng.IntN(3) == 0 {
					piece = "▁" + piece
				}
				add(piece)
			}
		}
	}
	return bertVocabulary(t, tokens)
}

// bertVocabulary begins with padding, unknown, first and last tokens.
func bertVocabulary(t *testing.T, tokens []string) tokenizer.KeyValues {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBERT, ""))(t)
	c.Tokens, c.Padding, c.Unknown, c.BOS, c.Separator = tokens, 0, 1, 2, 3
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(tokens))
	for i := range 4 {
		c.Types[i] = tokenizer.Control
	}
	tok := need.Value(tokenizer.New(c))(t)
	return tok.KeyValues()
}

// TestInteropUnigram holds tokens of T5's vocabularies against stock's, with replaced characters and without, and with blanks
// merged or kept.
func TestInteropUnigram(t *testing.T) {
	for _, seed := range seeds() {
		rng := seeded(t, seed)
		learned, texts := generatedTexts(rng, 1500), generatedTexts(rng, 500)
		texts = append(texts, "", " ", "  a", "a  ", " a b  c ")
		for _, merge := range []bool{true, false} {
			for _, prefix := range []bool{true, false} {
				for _, replaced := range []bool{true, false} {
					t.Run(fmt.Sprintf("seed %s merge %v prefix %v replaced %v", seed, merge, prefix, replaced), func(t *testing.T) {
						c := unigramVocabulary(t, rng, learned)
						c.MergeSpaces, c.AddSpacePrefix = merge, prefix
						if replaced {
							c.CharsMap = charsMap(map[string]string{
								"\t": " ", "\n": " ", "\r": " ", "\u3000": " ", "\u00a0": " ", "ﬁ": "fi", "½": "1⁄2", "²": "2", "™": "TM", "e\u0301": "é", "A": "a", "\u00ad": "", "...": "…", "..": "‥", "\u2003": " ",
							})
						}
						tok := need.Value(tokenizer.New(c))(t)
						compareTexts(t, tok.KeyValues(), texts)
					})
				}
			}
		}
	}
}

func unigramVocabulary(t *testing.T, rng *rand.Rand, texts []string) tokenizer.Config {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelT5, ""))(t)
	known := map[string]bool{}
	add := func(token string, kind tokenizer.TokenType, score float32) {
		if !known[token] {
			known[token] = true
			c.Tokens, c.Types, c.Scores = append(c.Tokens, token), append(c.Types, kind), append(c.Scores, score)
		}
	}
	add("<pad>", tokenizer.Control, 0)
	add("</s>", tokenizer.Control, 0)
	add("<unk>", tokenizer.Unknown, 0)
	add("<extra_id_0>", tokenizer.UserDefined, 0)
	add("▁", tokenizer.Normal, -2)
	for _, text := range texts {
		chars := []rune(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd"))
		for range 6 {
			from := rng.IntN(len(chars) + 1)
			to := min(len(chars), from+1+rng.IntN(4))
			piece := strings.ReplaceAll(string(chars[from:to]), " ", "▁")
			if strings.Contains(strings.TrimLeft(piece, "▁"), "▁") || piece == "" {
				continue
			}
			add(piece, tokenizer.Normal, -float32(rng.IntN(60))/4*float32(to-from))
		}
	}
	return c
}

// charsMap is SentencePiece's table of characters and what replaces them: a double array in which each node has a block for
// those after it.
func charsMap(replaced map[string]string) []byte {
	type node struct {
		children map[byte]*node
		value    int
	}
	root, strs := &node{children: map[byte]*node{}, value: -1}, []byte{}
	for from, to := range replaced {
		n := root
		for i := range len(from) {
			if n.children[from[i]] == nil {
				n.children[from[i]] = &node{children: map[byte]*node{}, value: -1}
			}
			n = n.children[from[i]]
		}
		n.value = len(strs)
		strs = append(append(strs, to...), 0)
	}
	units := make([]uint32, 256)
	var place func(n *node, at int, label uint32)
	place = func(n *node, at int, label uint32) {
		block := len(units)
		units = append(units, make([]uint32, 256)...)
		unit := uint32(at^block)<<10 | label
		if n.value >= 0 {
			unit |= 1 << 8
			units[block] = 1<<31 | uint32(n.value)
		}
		units[at] = unit
		for c, child := range n.children {
			place(child, block^int(c), uint32(c))
		}
	}
	place(root, 0, 0)
	raw := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		raw = binary.LittleEndian.AppendUint32(raw, u)
	}
	return append(raw, strs...)
}
