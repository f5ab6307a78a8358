package data

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/goggml/ggml/internal/counted"
)

// separators maps the extension of a table to its separator.
var separators = map[string]rune{".csv": ',', ".tsv": '\t'}

// quoteFields is the remedy for a row that cannot be parsed.
const quoteFields = "put fields with quotes, line ends or separators in quotes, and double the quotes in them"

// table reads a file of comma-separated values (RFC 4180) whose first row has the keys. All values are
// strings.
func (r *reader) table(f *file, separator rune) error {
	limit := &rowLimit{r: f.r}
	rows := csv.NewReader(limit)
	rows.Comma, rows.FieldsPerRecord, rows.ReuseRecord = separator, -1, true
	limit.left = r.o.MaxRecordBytes
	header, err := rows.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return r.badRow(f, err)
	}
	keys := slices.Clone(header)
	known := map[string]bool{}
	for _, key := range keys {
		if known[key] && key != "" {
			return &Error{File: f.name, Line: 1, Kind: Unreadable, Reason: "the first row, which names the keys, has " + quoted(key) + " twice", Remedy: "give each column a name of its own"}
		}
		known[key] = true
	}
	for {
		limit.left = r.o.MaxRecordBytes
		row, err := rows.Read()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			if err = r.badRow(f, err); err != nil {
				return err
			}
			continue
		}
		line, _ := rows.FieldPos(0)
		if err := r.row(f, line, keys, row); err != nil {
			return err
		}
	}
}

// row parses a row as an object with the given keys.
func (r *reader) row(f *file, line int, keys, row []string) error {
	if len(row) != len(keys) {
		return r.give(Example{}, faultf(BadTable, quoteFields, "the row has %s, the first one %d", counted.Of(len(row), "field"), len(keys)).in(f.name, line, nil))
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, text := range row {
		if !utf8.ValidString(text) || !utf8.ValidString(keys[i]) {
			return r.give(Example{}, faultf(BadEncoding, "convert the file to UTF-8", "%q is not valid UTF-8", keys[i]).in(f.name, line, nil))
		}
		if keys[i] == "" { // row numbers, as pandas writes them
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(keys[i]) + ":" + quoted(text))
	}
	b.WriteByte('}')
	return r.record(f.name, line, b.Bytes())
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	b, _ := json.Marshal(text) // never fails for a string
	return string(b)
}

// badRow returns the error for a row that cannot be parsed; later rows may be valid.
func (r *reader) badRow(f *file, err error) error {
	var fault *csv.ParseError
	switch {
	case errors.Is(err, errTooLong):
		return &Error{File: f.name, Kind: Unreadable, Reason: r.tooLong(f, 0).Reason, Remedy: "a quote that is not closed makes the rest of the file one field; " + quoteFields}
	case !errors.As(err, &fault):
		return f.broken(0, err)
	}
	return r.give(Example{}, &Error{File: f.name, Line: fault.Line, Column: fault.Column, Kind: BadTable, Reason: fault.Err.Error(), Remedy: quoteFields})
}

// A rowLimit limits the length of a row, in case a quote is never closed.
type rowLimit struct {
	r    io.Reader
	left int
}

func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
