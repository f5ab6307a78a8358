package generate

import (
	"slices"
	"strings"
)

// stopTexts passes a text on up to the first stop text, and holds back text that may begin one.
type stopTexts struct {
	stop   []string
	repair bool // make the text valid UTF-8
	held   string
	ended  bool
	total  int // bytes of text so far, with those that are held
}

// push takes whole characters and returns the text that cannot belong to a stop text; nothing
// after the end.
func (s *stopTexts) push(text string) (certain string, ended bool) {
	if s.ended {
		return "", true
	}
	if s.repair {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	s.total += len(text)
	text = s.held + text
	at, ended := s.end(text)
	s.held, s.ended = text[at:], ended
	return text[:at], ended
}

// end returns the index of the first stop text, or of the first text that may begin one.
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

// begins reports whether a text begins with a stop text.
func (s *stopTexts) begins(text string) bool {
	return slices.ContainsFunc(s.stop, func(stop string) bool { return strings.HasPrefix(text, stop) })
}

// flush ends the text with its rest. Text that was held back for a longer stop text may contain
// a shorter one.
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
