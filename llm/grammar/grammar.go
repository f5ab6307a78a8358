package grammar

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// A Grammar describes texts. It does not change, and is safe for concurrent use.
type Grammar struct{ a *automaton }

// Parse reads a grammar in GBNF. Errors name the line and column.
func Parse(text string) (*Grammar, error) {
	p := &parser{text: text}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	a, err := compile(p.rules, p.names, root)
	if err != nil {
		return nil, err
	}
	return &Grammar{a}, nil
}

// Any returns the grammar of the texts that have one of several grammars.
func Any(list ...*Grammar) (*Grammar, error) {
	if len(list) == 0 {
		return nil, errors.New("there are no grammars of which a text could have one")
	}
	var parts []*automaton
	for _, g := range list {
		if err := g.checkMade(); err != nil {
			return nil, err
		}
		parts = append(parts, g.a)
	}
	a, err := union(parts)
	if err != nil {
		return nil, err
	}
	return &Grammar{a}, nil
}

func (g *Grammar) checkMade() error {
	switch {
	case g == nil:
		return errors.New("the grammar is nil")
	case g.a == nil:
		return fmt.Errorf("the grammar is a zero value; Parse makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// Match reports whether a whole text has the grammar. Elements that are tokens match no text.
func (g *Grammar) Match(text string) (bool, error) {
	if err := g.checkMade(); err != nil {
		return false, err
	}
	m, at, err := newMachine(g.a)
	if err != nil {
		return false, err
	}
	for i := 0; i < len(text) && at != dead; i++ {
		if at, err = m.step(m.begin(at), text[i]); err != nil {
			return false, err
		}
	}
	return m.configs[at].ends, nil
}
