package tokenizer

import (
	"slices"
	"sort"
	"strings"
)

// specialStarts indexes special tokens by their first bytes: a text has few of them, a vocabulary may have
// thousands.
type specialStarts struct {
	first [256]bool
	// Indices in Tokenizer.special by the first two bytes, or by the only one.
	two map[[2]byte][]int
	one [256][]int

	longest, longestUserDefined int
	strips                      bool // some tokens strip the white space behind them
}

func newSpecialStarts(t *Tokenizer) *specialStarts {
	s := &specialStarts{two: map[[2]byte][]int{}}
	for rank, id := range t.special {
		text := t.texts[id]
		s.first[text[0]] = true
		if len(text) == 1 {
			s.one[text[0]] = append(s.one[text[0]], rank)
		} else {
			key := [2]byte{text[0], text[1]}
			s.two[key] = append(s.two[key], rank)
		}
		s.longest = max(s.longest, len(text))
		if t.attrs[id]&attrHidden == 0 {
			s.longestUserDefined = max(s.longestUserDefined, len(text))
		}
		s.strips = s.strips || t.stripRight[id]
	}
	return s
}

// A fragment is a matched token, or text still to be split. The range of a token includes the white space that it
// strips.
type fragment struct {
	byteRange
	id ID // None for text
}

type byteRange struct{ from, to int }

// A matcher cuts text at its special tokens. The text may be a window of a longer one.
type matcher struct {
	t    *Tokenizer
	text string
	// parse has the ranges in which control tokens are matched, in order, with gaps between them; user-defined
	// tokens are matched everywhere. Offsets count from the start of the whole text; text begins at offset.
	parse  []byteRange
	offset int

	present []ID        // the special tokens that text contains, longest first
	covered []byteRange // ranges of their occurrences, merged where they overlap
	out     []fragment
}

func (t *Tokenizer) newMatcher(text string, parse []byteRange, offset int) *matcher {
	m := &matcher{t: t, text: text, parse: parse, offset: offset}
	if m.longest() == 0 {
		return m
	}
	var ranks []int
	for at := range len(text) {
		if !t.starts.first[text[at]] {
			continue
		}
		ranks = m.matchAt(ranks, at, t.starts.one[text[at]])
		if at+1 < len(text) {
			ranks = m.matchAt(ranks, at, t.starts.two[[2]byte{text[at], text[at+1]}])
		}
	}
	slices.Sort(ranks)
	for _, rank := range slices.Compact(ranks) {
		m.present = append(m.present, t.special[rank])
	}
	return m
}

// longest returns the length of the longest token that may be matched.
func (m *matcher) longest() int {
	if len(m.parse) == 0 {
		return m.t.starts.longestUserDefined
	}
	return m.t.starts.longest
}

// matchAt appends the candidates that match at an offset.
func (m *matcher) matchAt(ranks []int, at int, candidates []int) []int {
	for _, rank := range candidates {
		id := m.t.special[rank]
		if !strings.HasPrefix(m.text[at:], m.t.texts[id]) || !m.allows(id, at) {
			continue
		}
		if len(ranks) == 0 || ranks[len(ranks)-1] != rank {
			ranks = append(ranks, rank)
		}
		to := at + len(m.t.texts[id])
		if n := len(m.covered); n > 0 && at < m.covered[n-1].to {
			m.covered[n-1].to = max(m.covered[n-1].to, to)
		} else {
			m.covered = append(m.covered, byteRange{at, to})
		}
	}
	return ranks
}

// allows reports whether a token may be matched at an offset.
func (m *matcher) allows(id ID, at int) bool {
	if m.t.attrs[id]&attrHidden == 0 {
		return true
	}
	from := m.offset + at
	to := from + len(m.t.texts[id])
	i := sort.Search(len(m.parse), func(i int) bool { return m.parse[i].to >= to })
	return i < len(m.parse) && m.parse[i].from <= from
}

// boundary returns an offset at which text can be cut so that both parts, whatever follows, have the same fragments
// as the whole: no special token and no stripped white space may span it. It is 0 if there is no such offset.
func (m *matcher) boundary() int {
	at := len(m.text) - max(0, m.longest()-1)
	if m.t.starts.strips {
		at = min(at, len(m.text)-1)
	}
	for at > 0 {
		i := sort.Search(len(m.covered), func(i int) bool { return m.covered[i].to > at })
		if i < len(m.covered) && m.covered[i].from < at {
			at = m.covered[i].from
		} else if m.t.starts.strips && strings.IndexByte(stripped, m.text[at]) >= 0 {
			at--
		} else {
			return at
		}
	}
	return 0
}

// stripped are the characters that StripRight tokens swallow.
const stripped = " \t\n\v\f\r"

// fragments cuts text[:to], where to is the end of text or a boundary.
func (m *matcher) fragments(to int) []fragment {
	m.cut(0, to, m.present)
	return m.out
}

// cut appends the fragments of text[from:to]. It cuts out all occurrences of a longer token before it looks for a
// shorter one, so "<a><b>" has precedence over "<b>".
func (m *matcher) cut(from, to int, present []ID) {
	for len(present) > 0 && from < to {
		id := present[0]
		at := m.find(id, from, to)
		if at < 0 {
			present = present[1:]
			continue
		}
		m.cut(from, at, present[1:])
		from = at + len(m.t.texts[id])
		if m.t.stripRight[id] {
			from = to - len(strings.TrimLeft(m.text[from:to], stripped))
		}
		m.out = append(m.out, fragment{byteRange{at, from}, id})
	}
	if from < to {
		m.out = append(m.out, fragment{byteRange{from, to}, None})
	}
}

// find returns the first match of the token in text[from:to], or −1.
func (m *matcher) find(id ID, from, to int) int {
	for {
		at := strings.Index(m.text[from:to], m.t.texts[id])
		if at < 0 {
			return -1
		}
		from += at
		if m.allows(id, from) {
			return from
		}
		from++
	}
}
