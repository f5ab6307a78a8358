package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ErrVocabulary is the error of a grammar with a token that the vocabulary lacks, or a text that no token of the vocabulary can
// continue.
var ErrVocabulary = errors.New("the grammar does not fit the vocabulary")

// A Matcher follows a text of tokens, and decides which may come next. Tokens are sequences of bytes: one may end inside a
// character. It is used by one goroutine.
type Matcher struct {
	m       *machine
	at      int32 // config
	v       *tokenizer.Tokenizer
	ids     []int32 // of the grammar's tokens
	ends    []int32 // tokens that end the text
	allowed []uint64
	path    []int32 // configs by depth; reused
	access  exclusive.Access
}

// NewMatcher returns a matcher at the beginning of a text in a vocabulary. The text may end, by a token of ends or one that ends
// every generation, where the grammar ends. It is an error if a token of the grammar is not in the vocabulary.
func (g *Grammar) NewMatcher(v *tokenizer.Tokenizer, ends ...int32) (*Matcher, error) {
	if err := g.checkMade(); err != nil {
		return nil, err
	}
	if v.NumTokens() == 0 {
		return nil, errors.New("the vocabulary is nil or has no tokens")
	}
	if i := slices.IndexFunc(ends, func(id int32) bool { return id < 0 || int(id) >= v.NumTokens() }); i >= 0 {
		return nil, fmt.Errorf("there is no token %d to end a text; the vocabulary has %d", ends[i], v.NumTokens())
	}
	ids, err := g.a.tokenIDs(v)
	if err != nil {
		return nil, err
	}
	m, at, err := newMachine(g.a)
	if err != nil {
		return nil, err
	}
	v.Trie() // before the first token waits for it
	return &Matcher{m: m, at: at, v: v, ids: ids, ends: slices.Concat(v.EOGs(), ends)}, nil
}

// tokenIDs returns the IDs of the tokens.
func (a *automaton) tokenIDs(v *tokenizer.Tokenizer) ([]int32, error) {
	ids := make([]int32, len(a.tokens))
	for i, t := range a.tokens {
		ids[i] = t.id
		if t.text != "" {
			list := v.Encode(t.text, tokenizer.EncodeOptions{ParseSpecial: true})
			if len(list) != 1 {
				return nil, fmt.Errorf("%w: %s is not a single token", ErrVocabulary, t.text)
			}
			ids[i] = list[0]
		}
		if int(ids[i]) >= v.NumTokens() {
			return nil, fmt.Errorf("%w: there is no token %d among its %d", ErrVocabulary, ids[i], v.NumTokens())
		}
	}
	return ids, nil
}

func (m *Matcher) acquire(method string) error {
	switch {
	case m == nil:
		return errors.New("the matcher is nil")
	case m.m == nil:
		return fmt.Errorf("the matcher is a zero value; Grammar.NewMatcher makes one: %w", ggml.ErrZeroValue)
	}
	return m.access.Acquire(method, "Matcher")
}

// isEnd reports whether a token ends the text.
func (m *Matcher) isEnd(id int32) bool { return slices.Contains(m.ends, id) }

// isToken returns a function that reports whether an element of the grammar is a token.
func (m *Matcher) isToken(id int32) func(of int32) bool {
	return func(of int32) bool { return (m.ids[of] == id) != m.m.tokens[of].not }
}

// after returns the config after a token.
func (m *Matcher) after(id int32) (int32, error) {
	whole, err := m.m.afterToken(m.at, m.isToken(id))
	piece := m.v.Piece(id)
	if err != nil || m.v.IsSpecial(id) || len(piece) == 0 {
		return whole, err
	}
	spelt, err := m.m.steps(m.at, string(piece))
	if err != nil {
		return dead, err
	}
	return m.m.join(whole, spelt), nil
}

// Allows reports whether a token may come next.
func (m *Matcher) Allows(id int32) (bool, error) {
	if err := m.acquire("Matcher.Allows"); err != nil {
		return false, err
	}
	defer m.access.Release()
	m.at = m.m.begin(m.at)
	if m.isEnd(id) {
		return m.m.configs[m.at].ends, nil
	}
	at, err := m.after(id)
	return at != dead, err
}

// Accept appends a token to the text. One that ends the text changes nothing.
func (m *Matcher) Accept(id int32) error {
	if err := m.acquire("Matcher.Accept"); err != nil {
		return err
	}
	defer m.access.Release()
	m.at = m.m.begin(m.at)
	if m.isEnd(id) {
		if !m.m.configs[m.at].ends {
			return errors.New("grammar: the text cannot end here")
		}
		return nil
	}
	at, err := m.after(id)
	switch {
	case err != nil:
		return err
	case at == dead:
		return fmt.Errorf("grammar: token %d (%q) cannot come here", id, m.v.Piece(id))
	}
	m.at = at
	return nil
}

// AcceptText appends a text, which may end inside a token.
func (m *Matcher) AcceptText(text string) error {
	if err := m.acquire("Matcher.AcceptText"); err != nil {
		return err
	}
	defer m.access.Release()
	m.at = m.m.begin(m.at)
	at, err := m.m.steps(m.at, text)
	switch {
	case err != nil:
		return err
	case at == dead:
		return fmt.Errorf("grammar: %q cannot come here", text)
	}
	m.at = at
	return nil
}

// CanEnd reports whether the text may end here.
func (m *Matcher) CanEnd() bool { return m != nil && m.m != nil && m.m.configs[m.at].ends }

// MustEnd reports whether nothing can follow the text, which is complete.
func (m *Matcher) MustEnd() bool { return m.CanEnd() && len(m.m.configs[m.at].items) == 0 }

// Mask sets the logits [vocabulary] of tokens that may not come next to −∞.
func (m *Matcher) Mask(logits []float32) error {
	if err := m.acquire("Matcher.Mask"); err != nil {
		return err
	}
	defer m.access.Release()
	m.at = m.m.begin(m.at)
	if err := m.allowText(); err != nil {
		return err
	}
	ends := m.m.configs[m.at].ends
	for _, id := range m.ends {
		m.allow(id, ends)
	}
	for id := range logits {
		if id >= m.v.NumTokens() || m.allowed[id/64]>>(id%64)&1 == 0 {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

// allow includes a token in the set of tokens that may come next, or excludes it.
func (m *Matcher) allow(id int32, allowed bool) {
	m.allowed[id/64] &^= 1 << (id % 64)
	if allowed {
		m.allowed[id/64] |= 1 << (id % 64)
	}
}

// allowText fills the set with the tokens that continue the text.
func (m *Matcher) allowText() error {
	n := m.v.NumTokens()
	if m.allowed == nil {
		m.allowed = make([]uint64, (n+63)/64)
	}
	clear(m.allowed)
	for _, it := range m.m.configs[m.at].items {
		for _, e := range m.m.states[it.state].edges {
			if e.kind == tokenEdge {
				m.allowWhole(e.of)
			}
		}
	}
	return m.walk(m.v.Trie())
}

// walk allows the tokens of a trie that the grammar can spell. Bytes that no token can have here are skipped with all that
// follows them.
func (m *Matcher) walk(nodes []tokenizer.TrieNode) error {
	path, next, num := append(m.path[:0], m.at), m.m.next, m.m.num
	for i := 0; i < len(nodes); {
		node := &nodes[i]
		at := next[int(path[node.Depth])*num+int(m.m.class[node.Byte])]
		if at == unknown {
			var err error
			if at, err = m.m.step(path[node.Depth], node.Byte); err != nil {
				return err
			}
			next = m.m.next
		}
		if at == dead {
			i += int(node.Size)
			continue
		}
		if id := node.Token; id >= 0 {
			m.allowed[id/64] |= 1 << (id % 64)
		}
		if to := int(node.Depth) + 1; to < len(path) {
			path[to] = at
		} else {
			path = append(path, at)
		}
		i++
	}
	m.path = path
	return nil
}

// allowWhole allows the token of an element, or all others.
func (m *Matcher) allowWhole(of int32) {
	id := m.ids[of]
	if !m.m.tokens[of].not {
		m.allow(id, true)
		return
	}
	had := m.allowed[id/64]>>(id%64)&1 == 1
	for i := range m.allowed {
		m.allowed[i] = math.MaxUint64
	}
	m.allow(id, had)
}
