package data

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Stdin is the name of the standard input as a source.
const Stdin = "-"

// Splits are the files of a folder of data.
type Splits struct{ Train, Valid, Test []string }

// splitName matches the files of a folder: train.jsonl, validation.jsonl.gz, train-00000-of-00002.parquet.
var splitName = regexp.MustCompile(`(?i)^(train|training|valid|validation|val|dev|test)([-_.].*)?$`)

// Folder finds the files of the splits of a folder: train, valid (or validation, val, dev) and test, each with the
// extension .jsonl, .json, .ndjson, .parquet or .txt, or .gz behind it. A split may be of several files, such as
// train-00000-of-00002.parquet, of one extension. The folder has to have a train split.
func Folder(path string) (Splits, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return Splits{}, unreadable(path, err)
	}
	var s Splits
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		m := splitName.FindStringSubmatch(e.Name())
		if e.IsDir() || m == nil || !slices.Contains(dataExtensions, extension(e.Name())) {
			continue
		}
		split := &s.Train
		switch strings.ToLower(m[1]) {
		case "valid", "validation", "val", "dev":
			split = &s.Valid
		case "test":
			split = &s.Test
		}
		*split = append(*split, filepath.Join(path, e.Name()))
	}
	for _, split := range [][]string{s.Train, s.Valid, s.Test} {
		for _, file := range split {
			if extension(file) != extension(split[0]) {
				return Splits{}, &Error{File: path, Kind: Unreadable, Remedy: "remove one of them, or name the files",
					Reason: fmt.Sprintf("%s and %s are both files of one split", filepath.Base(split[0]), filepath.Base(file))}
			}
		}
	}
	if len(s.Train) == 0 {
		found := "it is empty"
		if len(names) > 0 {
			found = "it has " + strings.Join(names[:min(len(names), 5)], ", ")
		}
		return Splits{}, &Error{File: path, Kind: Unreadable, Reason: "the folder has no train file: " + found,
			Remedy: "call the file train.jsonl or train.parquet, or name it instead of the folder"}
	}
	return s, nil
}

var dataExtensions = []string{".jsonl", ".ndjson", ".json", ".parquet", ".txt"}

// extension is the lower-case extension of a file without .gz.
func extension(path string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(path), ".gz"))
}

// IsPlainText reports whether a source is read as plain text, one example for each file: whether it has neither an
// extension of JSON or Parquet nor is the standard input.
func IsPlainText(source string) bool {
	return source != Stdin && !slices.Contains([]string{".jsonl", ".ndjson", ".json", ".parquet"}, extension(source))
}

// Expand gives the files of sources: a file is itself, a folder its train split, a pattern such as data/*.jsonl the
// files that match it, in the order of their names.
func Expand(sources []string) ([]string, error) {
	var files []string
	for _, source := range sources {
		more, err := expand(source)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	if len(files) == 0 {
		return nil, &Error{Kind: NoExamples, Reason: "no source of data is given"}
	}
	return files, nil
}

func expand(source string) ([]string, error) {
	if source == Stdin {
		return []string{source}, nil
	}
	info, err := os.Stat(source)
	switch {
	case err == nil && info.IsDir():
		splits, err := Folder(source)
		return splits.Train, err
	case err == nil:
		return []string{source}, nil
	case !strings.ContainsAny(source, "*?["):
		return nil, unreadable(source, err)
	}
	files, err := filepath.Glob(source)
	if err != nil {
		return nil, &Error{File: source, Kind: Unreadable, Reason: "the pattern is wrong: " + err.Error(), Err: err}
	}
	if len(files) == 0 {
		return nil, &Error{File: source, Kind: Unreadable, Reason: "no file matches the pattern",
			Remedy: "quote it, so that the shell leaves it alone, and check the folder"}
	}
	return files, nil
}

// unreadable is an error of the system with a file.
func unreadable(path string, err error) *Error {
	e := &Error{File: displayName(path), Kind: Unreadable, Reason: err.Error(), Err: err}
	var cause *os.PathError
	if errors.As(err, &cause) {
		e.Reason = cause.Err.Error()
	}
	return e
}

func displayName(path string) string {
	if path == Stdin {
		return "stdin"
	}
	return path
}

// otherFormats are files that would be read as text by their extension, and are none.
var otherFormats = map[string]string{
	".csv": "CSV", ".tsv": "TSV", ".arrow": "Arrow", ".feather": "Arrow", ".zst": "Zstandard", ".xz": "XZ", ".bz2": "bzip2",
	".zip": "ZIP", ".tar": "tar", ".tgz": "tar", ".xlsx": "Excel", ".yaml": "YAML", ".yml": "YAML", ".pkl": "pickle", ".gguf": "GGUF",
}

// A file is an open source.
type file struct {
	name   string // for errors
	r      *bufio.Reader
	closer io.Closer
}

const readBuffer = 1 << 20

// open opens a source, without its compression and its byte order mark.
func open(path string, stdin io.Reader) (*file, error) {
	f := &file{name: displayName(path), closer: io.NopCloser(nil)}
	raw := stdin
	if path != Stdin {
		if format, ok := otherFormats[filepath.Ext(strings.ToLower(path))]; ok {
			return nil, &Error{File: path, Kind: Unreadable, Reason: "a file of " + format + " is not read",
				Remedy: "convert it to JSONL: one object in each line, with the keys messages, prompt and completion, or text"}
		}
		opened, err := os.Open(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		raw, f.closer = opened, opened
	}
	f.r = bufio.NewReaderSize(raw, readBuffer)
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
		_, _ = f.r.Discard(3) // it was read
	}
	return f, nil
}

// broken is an error in reading the file at a line.
func (f *file) broken(line int, err error) *Error {
	e := unreadable(f.name, err)
	e.Line = line
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt) {
		e.Reason, e.Remedy = "the gzip file is damaged: "+err.Error(), "fetch or compress it again"
	}
	return e
}

// firstByte is the first byte that is no white space; 0 if there is none.
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
