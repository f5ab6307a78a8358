package data

import (
	"fmt"
	"strings"
)

// Kind is a kind of fault in data.
type Kind string

// Kinds of faults. All but Unreadable and NoExamples are of one record, which can be skipped.
const (
	BadJSON        Kind = "bad JSON"
	Truncated      Kind = "truncated JSON"
	BadEncoding    Kind = "text that is not UTF-8"
	DuplicateKey   Kind = "duplicate key"
	TooLong        Kind = "too long"
	MissingKey     Kind = "missing key"
	MixedFormats   Kind = "mixed formats"
	Preferences    Kind = "preference data"
	BadTable       Kind = "bad table"
	WrongType      Kind = "value of the wrong type"
	WrongRole      Kind = "wrong role"
	Empty          Kind = "empty"
	BadToolCall    Kind = "bad tool call"
	BadWeight      Kind = "bad weight"
	Contradiction  Kind = "contradiction"
	Unrendered     Kind = "words that the chat template leaves out"
	TemplateFailed Kind = "chat template"
	NothingTrained Kind = "nothing trained"
	Unreadable     Kind = "unreadable" // a file or the rest of it
	NoExamples     Kind = "no examples"
)

// Error is a fault of data, with its place and the remedy.
type Error struct {
	File   string // "stdin" for the standard input; "" if it is of no file
	Line   int    // from 1; the row of a Parquet file; 0 if it is of the whole file
	Column int    // in characters from 1; 0 if it is of the whole record
	Kind   Kind
	Reason string
	Remedy string // may be ""
	Option Option // of reading or encoding, that applies the remedy; its Name is "" if no option does
	Err    error  // the cause, if there is one
}

// An Option is a field of [LoadOptions], [ReadOptions] or [EncoderOptions] with what it should hold, so that a program can
// name its flag for it: Keys or Roles with a key and its value, others with a value, such as Length and TooLong, or without.
type Option struct{ Name, Key, Value string }

// String is the name of the field, with what it should hold behind it.
func (o Option) String() string {
	switch {
	case o.Key != "":
		return o.Name + " " + o.Key + "=" + o.Value
	case o.Value != "":
		return o.Name + " " + o.Value
	}
	return o.Name
}

// Error gives file, line, reason and remedy: "data.jsonl:3: …; remove the record".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
