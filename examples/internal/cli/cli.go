// Package cli is what the programs do alike: they stop at signals, and end
// with a status that says how.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// ErrInterrupted is in the error of a program that a signal has stopped.
var ErrInterrupted = errors.New("interrupted")

// Interrupted replaces an error that is due to an interrupt by one that says
// what is left, and how to go on.
func Interrupted(ctx context.Context, err error, hint string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w; %s", ErrInterrupted, hint)
}

// Main runs a program until it is done or a signal interrupts it, and ends the
// process. When the reader of its output goes away, what it writes there fails,
// but files that it writes are not lost.
func Main(name string, run func(context.Context) error) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := interruptible()
	err := run(ctx)
	stop()
	status, silent := outcome(err)
	if !silent {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(status)
}

// outcome is the exit status, with the numbers of shells for ends by a signal.
func outcome(err error) (status int, silent bool) {
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE), true
	case errors.Is(err, ErrInterrupted):
		return 128 + int(syscall.SIGINT), false
	case errors.Is(err, context.Canceled):
		return 128 + int(syscall.SIGINT), true
	}
	return 1, false
}

// interruptible makes a context that is cancelled by an interrupt, a termination
// signal, or the end of the terminal, which nohup makes a program ignore. A
// second signal ends the process at once.
func interruptible() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
