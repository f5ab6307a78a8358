package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// ShellQuote makes s one word of a shell's command line.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./+:,@%=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Arg is a flag with its value as words of a command line: a value that begins like a flag is
// joined to it.
func Arg(flag, value string) []string {
	if strings.HasPrefix(value, "-") {
		return []string{flag + "=" + value}
	}
	return []string{flag, value}
}

// ShellArg is a flag with its value as a shell takes it, for messages that advise it.
func ShellArg(flag, value string) string { return Advice{Words: Arg(flag, value)}.Line() }

// An Advice is a command line that a program advises.
type Advice struct {
	For   string // what it is for
	Words []string
}

// Advise prints command lines, which a shell takes as they are printed. The tests of programs
// run all that are.
func Advise(w io.Writer, list ...Advice) error {
	for _, a := range list {
		if _, err := fmt.Fprintf(w, "%s:\n  %s\n", a.For, a.Line()); err != nil {
			return err
		}
	}
	return nil
}

// Line is the command as a shell takes it.
func (a Advice) Line() string {
	quoted := make([]string, len(a.Words))
	for i, word := range a.Words {
		quoted[i] = ShellQuote(word)
	}
	return strings.Join(quoted, " ")
}
