package data

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/goggml/ggml/internal/filelink"
)

// otherFormats lists formats that are not text; without this check, their extension would make them
// plain text.
var otherFormats = map[string]string{
	".arrow": "Arrow", ".feather": "Arrow", ".zst": "Zstandard", ".xz": "XZ", ".bz2": "bzip2",
	".zip": "ZIP", ".tar": "tar", ".tgz": "tar", ".xlsx": "Excel", ".yaml": "YAML", ".yml": "YAML", ".pkl": "pickle", ".gguf": "GGUF",
}

// A file is an open source.
type file struct {
	name   string // for errors
	r      *bufio.Reader
	closer io.Closer
}

const readBuffer = 1 << 20

// A countingReader counts the bytes read.
type countingReader struct {
	io.Reader
	count *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.count.Add(int64(n))
	return n, err
}

// open opens a source, decompresses it, skips its byte order mark, and counts the bytes read from it.
func open(path string, stdin io.Reader, count *atomic.Int64) (*file, error) {
	f := &file{name: displayName(path), closer: io.NopCloser(nil)}
	raw := stdin
	if !isStdin(path) {
		if format, ok := otherFormats[filepath.Ext(strings.ToLower(path))]; ok {
			return nil, &Error{File: path, Kind: Unreadable, Reason: format + " files cannot be read",
				Remedy: "convert it to JSONL: one object in each line, with the keys messages, prompt and completion, or text"}
		}
		opened, err := filelink.OpenStream(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		raw, f.closer = opened, opened
	}
	f.r = bufio.NewReaderSize(countingReader{raw, count}, readBuffer)
	if magic, _ := f.r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(f.r)
		if err != nil {
			f.closer.Close()
			return nil, f.broken(0, err)
		}
		f.r = bufio.NewReaderSize(z, readBuffer)
	}
	mark, err := f.r.Peek(3)
	if err != nil && err != io.EOF {
		f.closer.Close()
		return nil, f.broken(0, err)
	}
	switch {
	case bytes.HasPrefix(mark, []byte{0xff, 0xfe}) || bytes.HasPrefix(mark, []byte{0xfe, 0xff}):
		f.closer.Close()
		return nil, &Error{File: f.name, Kind: Unreadable, Reason: "the file is UTF-16", Remedy: "convert it to UTF-8"}
	case bytes.Equal(mark, []byte{0xef, 0xbb, 0xbf}):
		_, _ = f.r.Discard(3) // cannot fail: already buffered
	}
	return f, nil
}

// broken returns an error for a failed read at a line.
func (f *file) broken(line int, err error) *Error {
	e := unreadable(f.name, err)
	e.Line = line
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt) {
		e.Reason, e.Remedy = "the gzip file is damaged: "+err.Error(), "fetch or compress it again"
	}
	return e
}

// firstByte returns the first byte that is not white space; 0 if there is none.
func (f *file) firstByte() byte {
	for n := 64; ; n *= 2 {
		start, err := f.r.Peek(min(n, readBuffer))
		if rest := bytes.TrimLeft(start, " \t\r\n"); len(rest) > 0 {
			return rest[0]
		}
		if err != nil || n >= readBuffer {
			return 0
		}
	}
}
