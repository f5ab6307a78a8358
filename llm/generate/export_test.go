package generate

import "io"

// InCache gives the tokens that the sequence of a chat has.
func (c *Chat) InCache() []int32 { return c.sequence.Tokens() }

// NewReplyWriter makes a writer of a reply; finish gives what it passed on, and whether a
// stop text has ended it.
func NewReplyWriter(w io.Writer, stop ...string) (_ io.Writer, finish func() (content string, ended bool, err error)) {
	r := &replyWriter{w: w, stop: stop}
	return r, func() (string, bool, error) {
		err := r.finish("")
		if err == errStopText {
			err = nil
		}
		return r.content.String(), r.err == errStopText, err
	}
}
