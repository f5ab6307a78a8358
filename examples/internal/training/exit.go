package training

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/goggml/ggml/internal/interrupt"
	"github.com/goggml/ggml/llm/train"
)

// Main runs a program until it is done or a signal interrupts it, and ends the
// process: with status 130 when it was interrupted, 1 when it failed.
func Main(name string, run func(context.Context) error) {
	ctx, stop := interrupt.Context()
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(status(err))
}

func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, train.ErrStopped):
		return 130
	}
	return 1
}

// An Interrupted is a train.ErrStopped that says what there is, and how to go on.
type Interrupted struct{ Hint string }

func (e *Interrupted) Error() string { return "interrupted; " + e.Hint }

func (e *Interrupted) Unwrap() error { return train.ErrStopped }

// Stopped turns a failure that is due to an interrupt into an Interrupted.
func Stopped(ctx context.Context, err error, hint string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &Interrupted{hint}
}
