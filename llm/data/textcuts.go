package data

import (
	"bytes"
	"io"
)

// textCuts reads a text part by part: a part begins at each occurrence of a
// marker, and what comes before the first is left out. Without a marker the
// whole text is one part. Empty parts are left out, too.
type textCuts struct {
	r      io.Reader
	marker []byte
	keep   bool // parts begin with the marker
	size   int  // of what is read at a time; shorter parts are given as one

	buf   []byte // read, but not given
	err   error  // of r
	begun bool
	head  string // of the part, to be given before buf
}

const readSize = 1 << 16

// next goes to the next part. It reports false at the end of the text, where err
// is io.EOF, and where the text cannot be read.
func (c *textCuts) next() bool {
	if len(c.marker) == 0 {
		first := !c.begun
		c.begun = true
		return first
	}
	for c.skipPart() {
		if c.keep {
			c.head = string(c.marker)
			return true
		}
		if c.fill(len(c.marker)); len(c.buf) > 0 && !bytes.HasPrefix(c.buf, c.marker) {
			return true
		}
	}
	return false
}

// skipPart goes behind the next marker.
func (c *textCuts) skipPart() bool {
	for {
		if at := bytes.Index(c.buf, c.marker); at >= 0 {
			c.buf = c.buf[at+len(c.marker):]
			return true
		}
		if c.err != nil {
			return false
		}
		c.buf = c.buf[max(0, len(c.buf)-(len(c.marker)-1)):] // the start of one, maybe
		c.fill(len(c.buf) + c.size)
	}
}

// fill reads until buf has n bytes, or the text ends.
func (c *textCuts) fill(n int) {
	for len(c.buf) < n && c.err == nil {
		have := len(c.buf)
		buf := make([]byte, max(n, c.size)+have)
		copy(buf, c.buf)
		var more int
		more, c.err = c.r.Read(buf[have:])
		c.buf = buf[:have+more]
	}
}

// short gives the rest of the part if it is short.
func (c *textCuts) short() (string, bool) {
	end := c.partEnd(c.buf)
	if end < 0 {
		c.fill(c.size)
		end = c.partEnd(c.buf)
	}
	if end < 0 {
		if c.err != io.EOF || len(c.buf) > c.size {
			return "", false
		}
		end = len(c.buf)
	}
	text := c.head + string(c.buf[:end])
	c.head, c.buf = "", c.buf[end:]
	return text, true
}

// partEnd is where the part ends in text, -1 if it does not.
func (c *textCuts) partEnd(text []byte) int {
	if len(c.marker) == 0 {
		return -1
	}
	return bytes.Index(text, c.marker)
}

// Read reads the rest of the part.
func (c *textCuts) Read(p []byte) (int, error) {
	if c.head != "" {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	c.fill(max(1, 2*len(c.marker)))
	end := c.partEnd(c.buf)
	switch {
	case end == 0, len(c.buf) == 0 && c.err == io.EOF:
		return 0, io.EOF
	case end < 0:
		if end = len(c.buf); c.err == nil {
			end -= max(0, len(c.marker)-1) // what may be the start of a marker
		}
	}
	if end == 0 {
		return 0, c.err
	}
	n := copy(p, c.buf[:end])
	c.buf = c.buf[n:]
	return n, nil
}
