package generate

import (
	"errors"
	"io"
	"slices"
	"strings"
)

// errStopText is a reply that has come to a text that ends it.
var errStopText = errors.New("a stop text")

// A replyWriter passes a reply on up to the first text that ends it, and holds back what
// may be the beginning of one.
type replyWriter struct {
	w       io.Writer
	stop    []string
	held    string
	content strings.Builder // what was passed on
	err     error           // of the first Write that failed
}

// Write takes whole characters. It fails with errStopText once the reply has ended.
func (r *replyWriter) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	text := r.held + strings.ToValidUTF8(string(p), "\uFFFD")
	at, ended := r.end(text)
	r.held = text[at:]
	r.err = r.pass(text[:at])
	if r.err == nil && ended {
		r.err = errStopText
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// end is where the first stop text begins, or the first place where one may begin that
// goes on beyond the text.
func (r *replyWriter) end(text string) (at int, found bool) {
	for at := range len(text) {
		rest := text[at:]
		switch {
		case r.begins(rest):
			return at, true
		case slices.ContainsFunc(r.stop, func(stop string) bool { return strings.HasPrefix(stop, rest) }):
			return at, false
		}
	}
	return len(text), false
}

// begins reports whether a text begins with one that ends the reply.
func (r *replyWriter) begins(text string) bool {
	return slices.ContainsFunc(r.stop, func(stop string) bool { return strings.HasPrefix(text, stop) })
}

func (r *replyWriter) pass(text string) error {
	if text == "" {
		return nil
	}
	r.content.WriteString(text)
	_, err := io.WriteString(r.w, text)
	return err
}

// finish writes the rest of the reply with what was held back, unless a Write has failed.
// What was held back for a longer stop text may have a whole one in it: then it is
// errStopText.
func (r *replyWriter) finish(rest string) error {
	if r.err != nil {
		return nil
	}
	if _, err := io.WriteString(r, rest); err != nil {
		return err
	}
	for at := range r.held {
		if r.begins(r.held[at:]) {
			if r.err = r.pass(r.held[:at]); r.err == nil {
				r.err = errStopText
			}
			return r.err
		}
	}
	return r.pass(r.held)
}
