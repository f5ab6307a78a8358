package chatting

import (
	"bufio"
	"context"
	"io"
	"strings"
)

// lines reads lines in the background, so that an interrupt is noticed while a read blocks.
type lines struct {
	read chan string
	err  error // valid once read is closed
}

// readLines begins to read, one line ahead, until the input or ctx ends.
func readLines(ctx context.Context, in io.Reader) *lines {
	l := &lines{read: make(chan string)}
	go func() {
		defer close(l.read)
		buffered := bufio.NewReader(in)
		for l.err == nil {
			var text string
			if text, l.err = buffered.ReadString('\n'); text == "" {
				continue
			}
			select {
			case l.read <- strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"):
			case <-ctx.Done():
				l.err = context.Cause(ctx)
			}
		}
	}()
	return l
}

// next returns the next line, io.EOF at the end, or the cause for which ctx ended.
func (l *lines) next(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	select {
	case text, ok := <-l.read:
		if !ok {
			return "", l.err
		}
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
