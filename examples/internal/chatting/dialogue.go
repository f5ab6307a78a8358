package chatting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/goggml/ggml/examples/internal/cli"
)

// A dialogue is a conversation in lines of text. On a terminal it shows a prompt, and lines
// can be edited.
type dialogue struct {
	*talk
	isTerminal bool
	failed     int // number of lines that failed
}

// prompt stands before the line being typed.
const prompt = "> "

func newDialogue(t *talk) *dialogue {
	file, ok := t.In.(*os.File)
	return &dialogue{talk: t, isTerminal: ok && term.IsTerminal(int(file.Fd()))}
}

func (d *dialogue) run(ctx context.Context) error {
	d.show("/help lists commands; Ctrl-D ends.\n")
	next := d.messages(ctx)
	for {
		text, err := next(ctx)
		if err == nil {
			err = d.take(ctx, text)
		}
		if err == nil {
			continue
		}
		d.show("\n")
		if err != io.EOF {
			return err
		}
		if d.failed > 0 && !d.isTerminal {
			return fmt.Errorf("%d of the lines could not be answered", d.failed)
		}
		return nil
	}
}

// show writes text to a terminal only.
func (d *dialogue) show(text string) {
	if d.isTerminal {
		fmt.Fprint(d.Log, text)
	}
}

// messages returns a function that reads the next message.
func (d *dialogue) messages(ctx context.Context) (next func(ctx context.Context) (string, error)) {
	if e := newEditor(d.In, d.Log); e != nil {
		return e.next
	}
	input := readLines(ctx, d.In)
	return func(ctx context.Context) (string, error) { return d.message(ctx, input) }
}

// message reads lines up to the first that does not end in a backslash.
func (d *dialogue) message(ctx context.Context, input *lines) (string, error) {
	var all []string
	for {
		d.show(prompt)
		line, err := input.next(ctx)
		if err == io.EOF && len(all) > 0 {
			return strings.Join(all, "\n"), nil
		}
		if err != nil {
			return "", err
		}
		line, goesOn := strings.CutSuffix(line, `\`)
		all = append(all, line)
		if !goesOn {
			return strings.Join(all, "\n"), nil
		}
	}
}

// take handles a message. Its error ends the dialogue.
func (d *dialogue) take(ctx context.Context, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case strings.HasPrefix(text, "//"):
		return d.reply(ctx, text[1:])
	case strings.HasPrefix(text, "/"):
		if err := d.command(text); err != nil {
			d.fail(err)
		}
		return nil
	}
	return d.reply(ctx, text)
}

// fail reports a line that failed.
func (d *dialogue) fail(err error) {
	d.failed++
	fmt.Fprintln(d.Log, err)
}

// reply answers a message. An interrupt stops only the reply.
func (d *dialogue) reply(ctx context.Context, text string) error {
	replying, stop := context.WithCancel(ctx)
	defer stop()
	defer cli.OnInterrupt(ctx, stop)()
	err := d.askInText(replying, text)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isRefusal(err):
		d.fail(err)
		return nil
	case replying.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return err
}
