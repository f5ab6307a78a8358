package data

import (
	"bytes"
	"io"
)

// documentReader reads a text document by document. A document begins at each occurrence of a marker;
// the text before the first is skipped. Without a marker the whole text is one document. Empty
// documents are skipped too.
type documentReader struct {
	text   io.Reader
	marker []byte
	keep   bool // documents include the marker
	size   int  // number of bytes per read; shorter documents are returned whole

	buf   []byte // bytes read ahead
	err   error  // error of text
	begun bool
	head  string // beginning of the document, returned before buf

	files  *textFiles // equals text, if that reads files
	at     int64      // number of bytes taken from buf
	file   int        // index of the file of the last of them
	lines  int        // number of line ends before, in that file
	origin Origin     // place of the document
}

const readSize = 1 << 16

// next goes to the next document. It returns false at the end of the text, with err io.EOF, or if
// reading fails.
func (r *documentReader) next() bool {
	if len(r.marker) == 0 {
		first := !r.begun
		r.begun, r.origin = true, r.here()
		return first
	}
	for r.skipDocument() {
		if r.keep {
			r.head = string(r.marker)
			return true
		}
		if r.fill(len(r.marker)); len(r.buf) > 0 && !bytes.HasPrefix(r.buf, r.marker) {
			return true
		}
	}
	return false
}

// skipDocument skips to the end of the next marker.
func (r *documentReader) skipDocument() bool {
	for {
		if at := bytes.Index(r.buf, r.marker); at >= 0 {
			r.take(at)
			r.origin = r.here()
			r.take(len(r.marker))
			return true
		}
		if r.err != nil {
			return false
		}
		r.take(max(0, len(r.buf)-(len(r.marker)-1))) // the rest may be the start of a marker
		r.fill(len(r.buf) + r.size)
	}
}

// fill reads until buf has n bytes or the text ends.
func (r *documentReader) fill(n int) {
	const many = 100 // limit of consecutive empty reads, as in package bufio
	for nothing := 0; len(r.buf) < n && r.err == nil; nothing++ {
		have := len(r.buf)
		buf := make([]byte, max(n, r.size)+have)
		copy(buf, r.buf)
		var more int
		more, r.err = r.text.Read(buf[have:])
		r.buf = buf[:have+more]
		if more > 0 {
			nothing = 0
		} else if nothing == many && r.err == nil {
			r.err = io.ErrNoProgress
		}
	}
}

// short returns the rest of the document if it is short.
func (r *documentReader) short() (string, bool) {
	end := r.endOf(r.buf)
	if end < 0 {
		r.fill(r.size)
		end = r.endOf(r.buf)
	}
	if end < 0 {
		if r.err != io.EOF || len(r.buf) > r.size {
			return "", false
		}
		end = len(r.buf)
	}
	text := r.head + string(r.take(end))
	r.head = ""
	return text, true
}

// endOf returns the index in text where the document ends; −1 if it does not end.
func (r *documentReader) endOf(text []byte) int {
	if len(r.marker) == 0 {
		return -1
	}
	return bytes.Index(text, r.marker)
}

// Read reads the rest of the document.
func (r *documentReader) Read(p []byte) (int, error) {
	if r.head != "" {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	r.fill(max(1, 2*len(r.marker)))
	end := r.endOf(r.buf)
	switch {
	case end == 0, len(r.buf) == 0 && r.err == io.EOF:
		return 0, io.EOF
	case end < 0:
		if end = len(r.buf); r.err == nil {
			end -= max(0, len(r.marker)-1) // may be the start of a marker
		}
	}
	if end == 0 {
		return 0, r.err
	}
	return copy(p, r.take(min(end, len(p)))), nil
}

// take removes the first n bytes from buf and returns them.
func (r *documentReader) take(n int) []byte {
	taken := r.buf[:n]
	r.buf = r.buf[n:]
	for rest := taken; len(rest) > 0; {
		r.here() // goes to the file of the next byte
		own := rest
		if end, found := r.endOfFile(); found {
			own = rest[:min(int64(len(rest)), end-r.at)]
		}
		r.lines += bytes.Count(own, []byte{'\n'})
		r.at, rest = r.at+int64(len(own)), rest[len(own):]
	}
	return taken
}

// here returns the place of the next byte of buf.
func (r *documentReader) here() Origin {
	for end, found := r.endOfFile(); found && end <= r.at; end, found = r.endOfFile() {
		r.file, r.lines = r.file+1, 0
	}
	return Origin{File: r.file, Line: r.lines + 1}
}

// endOfFile returns the number of bytes of text up to the end of the file, if another has been opened.
func (r *documentReader) endOfFile() (end int64, found bool) {
	if r.files == nil || r.file+1 >= len(r.files.begins) {
		return 0, false
	}
	return r.files.begins[r.file+1], true
}
