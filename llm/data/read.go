package data

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync/atomic"
)

// ReadOptions are the settings of Read.
type ReadOptions struct {
	// Keys maps standard keys to the data's names for them: {"messages": "dialog", "prompt": "question"}.
	// Records have the standard keys messages, conversations, prompt, completion, instruction, input,
	// output, chosen, rejected, label, teacher, text, system, tools, documents and reasoning_content; messages have role,
	// content, from and value.
	Keys map[string]string
	// Roles maps further roles of messages to roles that the template knows: {"agent": "assistant"}.
	Roles map[string]string
	// Pairs reads a better and a worse answer of each record, in the format [Pairs]. Without it such records
	// are faults, unless Keys names the answer to imitate.
	Pairs bool
	// Labels reads answers to prompts with a label: true or 1 if they are desirable, false or 0 if not. A pair is two
	// such answers.
	Labels bool
	// Teachers are the names that the key "teacher" of a record may have, for Sample.Teacher. If it is nil, the key has no
	// meaning.
	Teachers []string
	// Readers read files of other formats, by extension, such as ".parquet".
	Readers map[string]RecordReader
	// MaxRecordBytes limits the size of a record; 0 means 256 MB.
	MaxRecordBytes int
	// SkipBroken skips and counts broken records. If it is nil, the first one ends reading.
	SkipBroken *Broken
	// Stdin is read for "-"; nil means os.Stdin.
	Stdin io.Reader
	// BytesRead counts the bytes read from files, still compressed, for a progress display; may be nil. A
	// file with a reader in Readers is counted when it has been read.
	BytesRead *atomic.Int64
}

// Key identifies everything except the files that affects Read's results. It is part of
// PrepareOptions.Key.
func (o ReadOptions) Key() string {
	key := fmt.Sprintf("%q %q %d %t", o.Keys, o.Roles, o.MaxRecordBytes, o.SkipBroken != nil) // maps are printed sorted
	if o.Pairs {
		key += " pairs"
	}
	if o.Labels {
		key += " labels"
	}
	if o.Teachers != nil {
		key += fmt.Sprintf(" teachers %q", o.Teachers)
	}
	return key
}

// A RecordReader reads the records of a file, each as a JSON object. An error is the last item. Each
// object is valid only until the next is requested.
type RecordReader func(path string) iter.Seq2[[]byte, error]

const defaultMaxRecord = 256 << 20

// Read streams the examples of sources, one after another: files, folders, patterns (see Expand) or
// "-" for the standard input. JSON is recognised by the extension .jsonl, .ndjson or .json, on the
// standard input by its first character; it is either one object per line or one list of objects.
// Tables of texts have the extension .csv or .tsv, and the keys in their first row. .gz is
// decompressed. Any other file is text, and one example. An error is the last item: an *Error, or the
// reason why ctx has ended. It is an error if there are no examples at all.
func Read(ctx context.Context, sources []string, o ReadOptions) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		splits, err := Expand(sources)
		if ctx == nil {
			err = errNoContext
		}
		if err != nil {
			yield(Example{}, err)
			return
		}
		readFiles(ctx, splits.Train, o)(yield)
	}
}

var errNoContext = errors.New("the context.Context is nil")

func readFiles(ctx context.Context, files []string, o ReadOptions) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		r := &reader{ctx: ctx, o: o, yield: yield}
		if err := r.read(files); err != nil && !errors.Is(err, errStopped) {
			yield(Example{}, err)
		}
	}
}

// errStopped ends reading when the consumer stops.
var errStopped = errors.New("stopped")

// reader is the state of one call of Read.
type reader struct {
	ctx      context.Context
	o        ReadOptions
	yield    func(Example, error) bool
	parser   *parser
	source   int  // index of the file
	byLine   bool // the file has one object per line
	examples int
}

func (r *reader) read(files []string) error {
	if r.o.MaxRecordBytes == 0 {
		r.o.MaxRecordBytes = defaultMaxRecord
	}
	if r.o.Stdin == nil {
		r.o.Stdin = os.Stdin
	}
	if r.o.BytesRead == nil {
		r.o.BytesRead = new(atomic.Int64)
	}
	var err error
	if r.parser, err = newParser(r.o.Keys, r.o.Roles); err != nil {
		return err
	}
	r.parser.pairs, r.parser.labels, r.parser.teachers = r.o.Pairs, r.o.Labels, r.o.Teachers
	for i, path := range files {
		r.source = i
		r.parser.format, r.byLine = nil, false // determined for each file
		if err := r.file(path); err != nil {
			return err
		}
	}
	if r.examples == 0 {
		return r.none(files)
	}
	return nil
}

func (r *reader) none(files []string) error {
	e := &Error{Kind: NoExamples, Reason: "there is no example"}
	if len(files) == 1 {
		e.File = displayName(files[0])
	}
	switch n := r.o.SkipBroken.Total(); {
	case n == 1:
		e.Reason = fmt.Sprintf("there is no example: the only record is broken: %v", r.o.SkipBroken.Counts()[0].First)
	case n > 1:
		e.Reason = fmt.Sprintf("there is no example: all %d records are broken, the first: %v", n, r.o.SkipBroken.Counts()[0].First)
	}
	return e
}

func (r *reader) file(path string) error {
	ext := extension(path)
	if read, ok := r.o.Readers[ext]; ok {
		err := r.records(path, read)
		if info, statErr := os.Stat(path); statErr == nil {
			r.o.BytesRead.Add(info.Size())
		}
		return err
	}
	if ext == ".parquet" {
		return &Error{File: path, Kind: Unreadable, Reason: "this program has no reader for Parquet", Remedy: "convert the file to JSONL"}
	}
	f, err := open(path, r.o.Stdin, r.o.BytesRead)
	if err != nil {
		return err
	}
	defer f.closer.Close()
	first := f.firstByte()
	switch separator, isTable := separators[ext]; {
	case isTable:
		return r.table(f, separator)
	case first == '[' && !IsPlainText(path):
		return r.list(f)
	case !hasRecords(path) && (first != '{' || !IsPipe(path)):
		return r.text(f)
	}
	return r.lines(f)
}

// give yields an example, or the fault of its record.
func (r *reader) give(x Example, err error) error {
	if err != nil {
		if r.o.SkipBroken.Skip(err) {
			return nil
		}
		return err
	}
	r.examples++
	x.Source = r.source
	if !r.yield(x, nil) {
		return errStopped
	}
	return nil
}

// record parses a JSON object that begins at a line.
func (r *reader) record(name string, line int, data []byte) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	x, fault := r.parser.parse(data, line)
	if fault != nil {
		if r.byLine && fault.at >= 0 {
			fault.remedy = remedyOfLine(fault, line)
		}
		return r.give(Example{}, fault.in(name, line, data))
	}
	x.File, x.Line = name, line
	return r.give(x, nil)
}

// mendRecord is the remedy for a fault whose description suffices.
const mendRecord = "fix the record, or skip broken records"

// skipBroken is the option of mendRecord.
var skipBroken = Option{Name: "SkipBroken"}

// in converts a fault to an error with its place in a file, for a record that begins at a line.
func (f *fault) in(name string, line int, data []byte) *Error {
	e := &Error{File: name, Line: line, Kind: f.kind, Reason: f.reason, Remedy: f.remedy, Option: f.option}
	if e.Remedy == "" {
		e.Remedy, e.Option = mendRecord, skipBroken
	}
	if f.at >= 0 {
		before := data[:min(f.at, len(data))]
		e.Line += bytes.Count(before, []byte("\n"))
		before = before[bytes.LastIndexByte(before, '\n')+1:]
		e.Column = len([]rune(string(before))) + 1
	}
	return e
}

func (r *reader) records(path string, read RecordReader) error {
	line := 0
	for data, err := range read(path) {
		line++
		if err != nil {
			return &Error{File: path, Kind: Unreadable, Reason: err.Error(), Err: err}
		}
		if err := r.record(path, line, data); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) lines(f *file) error {
	r.byLine = true
	for n := 1; ; n++ {
		line, err := r.line(f)
		switch {
		case errors.Is(err, errTooLong):
			if err := r.give(Example{}, r.tooLong(f, n)); err != nil {
				return err
			}
			continue
		case err != nil && err != io.EOF:
			return f.broken(n, err)
		}
		if data := bytes.TrimSpace(line); len(data) > 0 {
			// Keep white space before the object, so that columns are right.
			if err := r.record(f.name, n, bytes.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// remedyOfLine returns the remedy for a line that is not an object: the file has another format or is
// truncated.
func remedyOfLine(f *fault, line int) string {
	switch {
	case f.remedy != "":
		return f.remedy
	case f.kind == Truncated && line == 1:
		return "write each object in one line (JSONL), or all of them as one list in a .json file"
	case f.kind == Truncated:
		return "the file was cut off, or has a line end within an object: write each object in one line"
	case f.kind == BadJSON && line == 1:
		return "each line must be one JSON object; give plain text the extension .txt"
	}
	return ""
}

func (r *reader) tooLong(f *file, line int) *Error {
	return &Error{File: f.name, Line: line, Kind: TooLong, Reason: fmt.Sprintf("the record has more than %d MB", r.o.MaxRecordBytes>>20),
		Remedy: "split it into shorter ones"}
}

var errTooLong = errors.New("too long")

// line reads a line, valid until the next call. errTooLong means that the line was skipped. The last
// line is returned with io.EOF.
func (r *reader) line(f *file) ([]byte, error) {
	line, err := f.r.ReadSlice('\n')
	n := len(line)
	var parts [][]byte // pieces of a line longer than the buffer
	for err == bufio.ErrBufferFull {
		if n <= r.o.MaxRecordBytes {
			parts = append(parts, slices.Clone(line))
		} else {
			parts = nil
		}
		line, err = f.r.ReadSlice('\n')
		n += len(line)
	}
	switch {
	case n > r.o.MaxRecordBytes && (err == nil || err == io.EOF):
		return nil, errTooLong
	case parts != nil:
		line = slices.Concat(append(parts, line)...)
	}
	return line, err
}

// text reads the whole file as one example.
func (r *reader) text(f *file) error {
	data, err := io.ReadAll(io.LimitReader(f.r, int64(r.o.MaxRecordBytes)+1))
	switch {
	case err != nil:
		return f.broken(0, err)
	case len(data) > r.o.MaxRecordBytes:
		return r.give(Example{}, r.tooLong(f, 1))
	case len(bytes.TrimSpace(data)) == 0:
		return nil
	}
	return r.give(Example{File: f.name, Line: 1, Format: Text, Text: string(data)}, nil)
}
