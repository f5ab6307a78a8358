package tokenizer

import (
	"iter"
	"math"
	"strings"
)

// wholeWords has the methods that models share whose pieces of a word depend on the word's end: they never cut one.
type wholeWords struct{}

func (wholeWords) inside(string) int { return 0 }

func (wholeWords) wholeChars(text []byte, n int) int { return min(n, len(text)) }

func (wholeWords) longest() int { return math.MaxInt }

// longestWhole is larger than any word, so that no word is cut into windows.
func (wholeWords) longestWhole() int { return math.MaxInt }

func (wholeWords) emit(out *output, text string, p piece, start int) {
	if p.symbol != noToken {
		out.add(p.symbol, start+len(text))
	}
}

// splitBefore yields the words of text, each with the separators before it.
func splitBefore(separator, text string, yield func(word string)) {
	for text != "" {
		begin := len(text) - len(strings.TrimLeft(text, separator))
		end := strings.Index(text[begin:], separator)
		if end < 0 {
			end = len(text) - begin
		}
		yield(text[:begin+end])
		text = text[begin+end:]
	}
}

// A prefixMap maps each prefix of a token that ends at a character to the token with this text, or to None.
type prefixMap map[string]ID

func (p prefixMap) add(id ID, text string) {
	for n := 0; n < len(text); {
		n += len(nextChar(text[n:]))
		if _, ok := p[text[:n]]; !ok {
			p[text[:n]] = None
		}
	}
	p[text] = id
}

// tokensOf yields the tokens that text begins with, and their sizes in bytes, the shortest first.
func (p prefixMap) tokensOf(text string) iter.Seq2[int, ID] {
	return func(yield func(size int, id ID) bool) {
		for n := 0; n < len(text); {
			n += len(nextChar(text[n:]))
			id, ok := p[text[:n]]
			if !ok || id != None && !yield(n, id) {
				return
			}
		}
	}
}
