package tokenizer

import "strings"

// Words up to this many bytes are cached.
const cachedWord = 48

// A wordCache has the tokens of words that were encoded before.
type wordCache struct {
	words map[string]byteRange // in ids and ends
	ids   []ID
	ends  []int // relative to the start of the word
}

// add adds the tokens of a word that begins at start, and reports whether the word was cached.
func (c *wordCache) add(out *output, word string, start int) bool {
	r, ok := c.words[word]
	if !ok {
		return false
	}
	out.ids = append(out.ids, c.ids[r.from:r.to]...)
	if out.wantEnds {
		for _, end := range c.ends[r.from:r.to] {
			out.ends = append(out.ends, start+end)
		}
	}
	return true
}

// remember caches the tokens of a word: the tokens of out from first on. It clears the cache if it is full.
func (c *wordCache) remember(out *output, word string, start, first, limit int) {
	if len(c.words) >= limit || c.words == nil {
		*c = wordCache{words: map[string]byteRange{}, ids: c.ids[:0], ends: c.ends[:0]}
	}
	from := len(c.ids)
	c.ids = append(c.ids, out.ids[first:]...)
	if out.wantEnds {
		for _, end := range out.ends[first:] {
			c.ends = append(c.ends, end-start)
		}
	}
	// A substring would keep the whole text in memory.
	c.words[strings.Clone(word)] = byteRange{from, len(c.ids)}
}
