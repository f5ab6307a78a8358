package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// ShellQuote quotes s as one word of a shell.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./+:,@%=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Arg returns a flag and its value as words of a command line. A value that starts with a dash is joined to the
// flag.
func Arg(flag, value string) []string {
	if strings.HasPrefix(value, "-") {
		return []string{flag + "=" + value}
	}
	return []string{flag, value}
}

// ShellArg returns a flag and its value quoted for a shell, for messages that advise it.
func ShellArg(flag, value string) string { return Advice{Words: Arg(flag, value)}.Line() }

// An Advice is a command line that a program recommends.
type Advice struct {
	For   string // its purpose
	Words []string
}

// Advise prints command lines that can be pasted into a shell. The tests of programs run all of them.
func Advise(w io.Writer, list ...Advice) error {
	for _, a := range list {
		if _, err := fmt.Fprintf(w, "%s:\n  %s\n", a.For, a.Line()); err != nil {
			return err
		}
	}
	return nil
}

// Line returns the command quoted for a shell.
func (a Advice) Line() string {
	quoted := make([]string, len(a.Words))
	for i, word := range a.Words {
		quoted[i] = ShellQuote(word)
	}
	return strings.Join(quoted, " ")
}
