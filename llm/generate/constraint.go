package generate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/sample"
)

// A constraint holds a text to a grammar.
type constraint struct {
	*grammar.Matcher
	after []string // the grammar begins after these texts, in their order
	seen  string   // text so far, while it has not begun

	isLazy bool // the text may leave the grammar with the token that has the last mark
	isOff  bool // and has
}

// constrain holds the text to a grammar, which begins after marks if there are any.
func (g *generation) constrain(by *grammar.Grammar, after ...string) error {
	if by == nil {
		return nil
	}
	m, err := by.NewMatcher(g.m.Tokenizer, g.ends...)
	if err == nil {
		g.constraint = &constraint{Matcher: m, after: after}
	}
	return err
}

// pickToken samples a token. complete means that the text is whole, and the vocabulary has no token to end it.
func (g *generation) pickToken(logits []float32) (id int32, complete bool, err error) {
	c := g.constraint
	switch {
	case c == nil || c.isOff:
		id, err = g.pick.Sample(logits)
		return id, false, err
	case len(c.after) > 0:
		if id, err = g.pick.Sample(logits); err == nil {
			err = c.see(string(g.m.Tokenizer.Piece(id)))
		}
		return id, false, err
	}
	id, err = g.pick.SampleConstrained(logits, c.Matcher)
	switch {
	case errors.Is(err, sample.ErrNoToken) && c.CanEnd():
		return 0, true, nil
	case errors.Is(err, sample.ErrNoToken):
		err = fmt.Errorf("%w: no token can come here", grammar.ErrVocabulary)
	}
	return id, false, err
}

// see begins the grammar after the last mark. Blanks between the mark and the answer are no part of it.
func (c *constraint) see(piece string) error {
	c.seen += piece
	_, rest, found := strings.Cut(c.seen, c.after[0])
	if !found {
		c.seen = c.seen[max(0, len(c.seen)-len(c.after[0])):]
		return nil
	}
	c.after, c.seen = c.after[1:], ""
	if len(c.after) > 0 {
		return c.see(rest)
	}
	err := c.AcceptText(strings.TrimLeft(rest, " \t\r\n"))
	if c.isOff = err != nil && c.isLazy; c.isOff {
		return nil
	}
	return err
}
