package chatting

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/goggml/ggml/internal/test/need"
)

// Typed text can be edited. Pasted text is one message, with its backslashes, and can be edited and sent like
// typed text. The arrow keys recall lines that were sent.
func TestEditor(t *testing.T) {
	null := need.Value(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer null.Close()
	const up, left = "\x1b[A", "\x1b[D"
	for _, c := range []struct {
		name, keys string
		want       []string
	}{
		{"lines", "one\rtwo\r", []string{"one", "two"}},
		{"edited", "on" + left + "X\r", []string{"oXn"}},
		{"wide and long", "größer 漢字\r", []string{"größer 漢字"}},
		{"history", "one\r\rtwo\rtwo\r" + up + up + "!\r", []string{"one", "", "two", "two", "one!"}},
		{"continued", "one\\\rtwo\r", []string{"one\ntwo"}},
		{"pasted", pasteBegin + "one\rtwo\\\rthree" + pasteEnd + "\rfour\r", []string{"one\ntwo\\\nthree", "four"}},
		{"pasted with its end", pasteBegin + "one\ntwo\n" + pasteEnd + "\rthree\r", []string{"one\ntwo", "three"}},
		{"pasted behind what is typed", "Explain: " + pasteBegin + "a\rb" + pasteEnd + " please\r", []string{"Explain: a\nb please"}},
		{"pasted control", pasteBegin + "a\x03b" + pasteEnd + "\r", []string{"a\x03b"}},
		{"ended while it goes on", "one\\\r\x04", []string{"one"}},
		{"interrupted", "one\rtw\x03", []string{"one"}},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		_, err = io.WriteString(w, c.keys)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		keys := &keyboard{in: r, out: null}
		e := &editor{keys: keys, line: term.NewTerminal(keys, prompt)}
		e.line.History = new(history)
		for _, want := range c.want {
			got, err := e.message()
			require.NoError(t, err, c.name)
			require.Equal(t, want, got, c.name)
		}
		_, err = e.message()
		if c.name == "interrupted" {
			require.Equal(t, errInterrupted, err)
		} else {
			require.Equal(t, io.EOF, err, c.name)
		}
		require.NoError(t, r.Close())
	}
}

// newEditor returns nil unless both ends are a terminal.
func TestEditorNeedsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.Nil(t, newEditor(r, w))
	require.Nil(t, newEditor(strings.NewReader(""), io.Discard))
}
