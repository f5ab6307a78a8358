package data

import (
	"fmt"
	"strings"
)

// Kind is a kind of fault in data.
type Kind string

// Kinds of faults. All except Unreadable and NoExamples concern one record, which can be skipped.
const (
	BadJSON        Kind = "bad JSON"
	Truncated      Kind = "truncated JSON"
	BadEncoding    Kind = "text that is not UTF-8"
	DuplicateKey   Kind = "duplicate key"
	TooLong        Kind = "too long"
	MissingKey     Kind = "missing key"
	MixedFormats   Kind = "mixed formats"
	Preferences    Kind = "preference data"
	SameSides      Kind = "equal answers of a pair"
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
	UnknownTeacher Kind = "unknown teacher"
	Unreadable     Kind = "unreadable" // a file, or the rest of one
	NoExamples     Kind = "no examples"
)

// Error reports a fault in data, with its place and remedy.
type Error struct {
	File   string // "stdin" for the standard input; "" if unknown
	Line   int    // line from 1, or row of a Parquet file; 0 for the whole file
	Column int    // in characters, from 1; 0 for the whole record
	Kind   Kind
	Reason string
	Remedy string // "" if none
	Option Option // option that applies the remedy; its Name is "" if none does
	Err    error  // cause, or nil
}

// An Option is a field of [LoadOptions], [ReadOptions] or [EncoderOptions] with the value it should
// have, so that a program can name its flag for it: Keys or Roles with a key and its value, others
// with a value, such as Length and TooLong, or without.
type Option struct{ Name, Key, Value string }

// String returns the name of the field with the value it should have.
func (o Option) String() string {
	switch {
	case o.Key != "":
		return o.Name + " " + o.Key + "=" + o.Value
	case o.Value != "":
		return o.Name + " " + o.Value
	}
	return o.Name
}

// Error returns file, line, reason and remedy: "data.jsonl:3: …; remove the record".
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
