package chatting

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// An editor reads messages at a terminal: editable lines, with a history on the arrow keys. Lines that are
// pasted together are one message.
type editor struct {
	keys *keyboard
	line *term.Terminal
}

// newEditor returns an editor, or nil unless both in and out are a terminal that can edit.
func newEditor(in io.Reader, out io.Writer) *editor {
	from, ok := in.(*os.File)
	to, ok2 := out.(*os.File)
	if !ok || !ok2 || !term.IsTerminal(int(from.Fd())) || !term.IsTerminal(int(to.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	e := &editor{keys: &keyboard{in: from, out: to}}
	e.line = term.NewTerminal(e.keys, prompt)
	e.line.History = new(history)
	e.keys.redraw = func() { e.line.Write(nil) }
	return e
}

// next returns the next message, io.EOF after Ctrl-D, or the cause for which ctx ended. Ctrl-C interrupts the
// program as it does elsewhere.
func (e *editor) next(ctx context.Context) (string, error) {
	if err := e.keys.open(); err != nil {
		return "", err
	}
	defer e.keys.close()
	if width, height, err := term.GetSize(int(e.keys.in.Fd())); err == nil && width > 0 {
		if err := e.line.SetSize(width, height); err != nil {
			return "", err
		}
	}
	e.line.SetBracketedPasteMode(true)
	defer e.line.SetBracketedPasteMode(false)
	type result struct {
		text string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := e.message()
		read <- result{text, err}
	}()
	select {
	case r := <-read:
		if errors.Is(r.err, errInterrupted) {
			e.keys.close()
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return r.text, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// message reads lines up to the first that neither ends in a backslash nor has another pasted line behind it.
func (e *editor) message() (string, error) {
	var all []string
	pasted := false
	for {
		line, err := e.line.ReadLine()
		if err == io.EOF && len(all) > 0 {
			return strings.Join(all, "\n"), nil
		}
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return "", err
		}
		if e.keys.pasting {
			pasted = true
			all = append(all, line)
			continue
		}
		line, goesOn := strings.CutSuffix(line, `\`)
		// A paste that ends with a newline leaves no line to send it with.
		if all = append(all, line); pasted && line == "" {
			all = all[:len(all)-1]
		}
		if !goesOn {
			return strings.Join(all, "\n"), nil
		}
	}
}

// A history has the lines that were sent in this dialogue, without consecutive duplicates.
type history []string

func (h *history) Add(line string) {
	if strings.TrimSpace(line) != "" && (len(*h) == 0 || (*h)[len(*h)-1] != line) {
		*h = append(*h, line)
	}
}

func (h *history) Len() int { return len(*h) }

// At counts from the newest line.
func (h *history) At(i int) string { return (*h)[len(*h)-1-i] }

// A keyboard reads keys of a terminal in raw mode, a line at a time, and handles the keys that stop programs.
type keyboard struct {
	in, out *os.File
	redraw  func()
	cooked  *term.State // nil unless the terminal is in raw mode
	typed   []byte      // not yet read
	last    []byte      // the last bytes read: a mark of a paste may arrive in parts
	pasting bool        // the bytes read so far end within a paste
}

// Keys that a terminal in raw mode leaves to the program, and the marks around pasted text.
const (
	ctrlC      = 3
	ctrlZ      = 26
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

var errInterrupted = errors.New("interrupted")

func (k *keyboard) open() (err error) {
	if k.cooked == nil {
		k.cooked, err = term.MakeRaw(int(k.in.Fd()))
	}
	return err
}

func (k *keyboard) close() {
	if k.cooked != nil {
		term.Restore(int(k.in.Fd()), k.cooked)
		k.cooked = nil
	}
}

func (k *keyboard) Write(p []byte) (int, error) { return k.out.Write(p) }

// Read returns keys up to the end of a line, so that each line is known as pasted or typed.
func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.typed) == 0 {
		buffer := make([]byte, 4096)
		n, err := k.in.Read(buffer)
		if err != nil {
			return 0, err
		}
		k.typed = buffer[:n]
	}
	n := 0
	for n < len(k.typed) && n < len(p) {
		key := k.typed[n]
		if !k.pasting && (key == ctrlC || key == ctrlZ) {
			if n > 0 {
				break // return the typed keys first
			}
			k.typed = k.typed[1:]
			return k.stop(key)
		}
		n++
		k.follow(key)
		if key == '\r' || key == '\n' {
			break
		}
	}
	copy(p, k.typed[:n])
	k.typed = k.typed[n:]
	return n, nil
}

// follow tracks the marks of pastes.
func (k *keyboard) follow(key byte) {
	k.last = append(k.last, key)
	if len(k.last) > len(pasteBegin) {
		k.last = k.last[1:]
	}
	switch {
	case bytes.Equal(k.last, []byte(pasteBegin)):
		k.pasting = true
	case bytes.Equal(k.last, []byte(pasteEnd)):
		k.pasting = false
	}
}

// stop handles a key that stops programs, as a terminal outside raw mode does.
func (k *keyboard) stop(key byte) (int, error) {
	if key == ctrlC {
		return 0, errInterrupted
	}
	k.close()
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return 0, err
	}
	if err := k.open(); err != nil {
		return 0, err
	}
	k.redraw()
	return 0, nil
}
