package data

import (
	"bufio"
	"errors"
	"io"
)

// list reads a file that is a single JSON list of objects.
func (r *reader) list(f *file) error {
	s := &listSplitter{r: f.r, line: 1, max: r.o.MaxRecordBytes}
	for {
		err := s.next()
		switch {
		case err == nil:
			err = r.record(f.name, s.begin, s.item)
		case err == io.EOF:
			return nil
		case errors.Is(err, errTooLong):
			err = r.tooLong(f, s.begin)
		case errors.Is(err, errCutOff):
			err = r.cutOff(f, s)
		case errors.Is(err, errNoList):
			err = &Error{File: f.name, Line: s.line, Kind: Unreadable, Reason: err.Error(),
				Remedy: "the file must be one list [{…}, {…}], or have an object in each line"}
		default:
			err = f.broken(s.line, err)
		}
		if err != nil {
			return err
		}
	}
}

// cutOff returns the reason why a list does not end: a fault in its last item, such as a missing
// quote, or a truncated file.
func (r *reader) cutOff(f *file, s *listSplitter) error {
	if len(s.item) > 0 {
		if _, fault := scanObject(s.item); fault != nil && fault.kind != Truncated {
			return fault.in(f.name, s.begin, s.item)
		}
	}
	return &Error{File: f.name, Line: s.line, Kind: Unreadable, Reason: "the file ends before the ] of its list",
		Remedy: "it was cut off: fetch or write it again"}
}

var (
	errCutOff = errors.New("the file ends within its list")
	errNoList = errors.New("expected a comma or the ] of the list")
)

// A listSplitter finds the items of a JSON list by brackets and quotes. It does not validate them.
type listSplitter struct {
	r     *bufio.Reader
	max   int
	line  int    // current line
	item  []byte // the last item
	begin int    // first line of the item
	items int
	open  bool // the opening [ was read
}

// next reads an item; io.EOF means the end of the list.
func (s *listSplitter) next() error {
	c, err := s.skipSpace()
	if err == nil && !s.open {
		s.open = true // the caller has seen that c is [
		c, err = s.skipSpace()
	} else if err == nil && c == ',' && s.items > 0 {
		c, err = s.skipSpace()
	} else if err == nil && c != ']' {
		return errNoList
	}
	if err != nil {
		return s.ended(err)
	}
	if c == ']' {
		if _, err := s.skipSpace(); err != io.EOF {
			return errors.Join(errNoList, err)
		}
		return io.EOF
	}
	s.items++
	return s.ended(s.rest(c))
}

// ended converts the end of the file within the list to an error.
func (s *listSplitter) ended(err error) error {
	if err == io.EOF {
		return errCutOff
	}
	return err
}

// skipSpace returns the next byte that is not white space.
func (s *listSplitter) skipSpace() (byte, error) {
	s.item = s.item[:0]
	for {
		c, err := s.r.ReadByte()
		switch c {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return c, err
		}
		if err != nil {
			return 0, err
		}
	}
}

// rest reads an item that begins with c.
func (s *listSplitter) rest(c byte) error {
	s.begin = s.line
	depth, inText, escaped := 0, false, false
	for {
		if len(s.item) >= s.max {
			return errTooLong
		}
		s.item = append(s.item, c)
		switch {
		case c == '\n':
			s.line++
		case escaped:
			escaped = false
		case inText:
			escaped, inText = c == '\\', c != '"'
		case c == '"':
			inText = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 && !inText && (c == '}' || c == ']') {
			return nil
		}
		next, err := s.r.ReadByte()
		if err != nil {
			return err
		}
		if depth == 0 && !inText && (next == ',' || next == ']') { // after a number or a string
			return s.r.UnreadByte()
		}
		c = next
	}
}
