package generate

import (
	"slices"
	"strings"
)

// stopTexts pass a text on up to the first of those that end it, and hold back what may be the
// beginning of one.
type stopTexts struct {
	stop   []string
	repair bool // make the text valid UTF-8
	held   string
	ended  bool
}

// push takes whole characters, and gives those that are certain. Once the text has ended, it
// gives no more.
func (s *stopTexts) push(text string) (certain string, ended bool) {
	if s.ended {
		return "", true
	}
	if s.repair {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = s.held + text
	at, ended := s.end(text)
	s.held, s.ended = text[at:], ended
	return text[:at], ended
}

// end is where the first stop text begins, or the first place where one may begin that
// goes on beyond the text.
func (s *stopTexts) end(text string) (at int, found bool) {
	if len(s.stop) == 0 {
		return len(text), false
	}
	for at := range len(text) {
		rest := text[at:]
		switch {
		case s.begins(rest):
			return at, true
		case slices.ContainsFunc(s.stop, func(stop string) bool { return strings.HasPrefix(stop, rest) }):
			return at, false
		}
	}
	return len(text), false
}

// begins reports whether a text begins with one that ends it.
func (s *stopTexts) begins(text string) bool {
	return slices.ContainsFunc(s.stop, func(stop string) bool { return strings.HasPrefix(text, stop) })
}

// flush ends the text, with the rest of it. What was held back for a longer stop text may have
// a whole one in it.
func (s *stopTexts) flush(rest string) (certain string, ended bool) {
	certain, ended = s.push(rest)
	if ended {
		return certain, true
	}
	held := s.held
	s.held = ""
	for at := range held {
		if s.begins(held[at:]) {
			s.ended = true
			return certain + held[:at], true
		}
	}
	return certain + held, false
}
