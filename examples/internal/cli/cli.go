// Package cli holds what all programs share: they parse flags, check files and limits before they work, stop at
// signals, and report success by their exit status.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/mpi"
	"github.com/goggml/ggml/llm/parallel"
)

// ErrInterrupted is wrapped in the error of a program that a signal stopped.
var ErrInterrupted = errors.New("interrupted")

// Interrupted replaces an error caused by an interrupt by one that says what was saved and how to continue.
func Interrupted(ctx context.Context, err error, hint string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := Cause(ctx)
	if errors.Is(err, parallel.ErrLost) { // lost because of the interrupt
		cause = err
	}
	return fmt.Errorf("%w; %s", cause, hint)
}

// Cause returns the reason for which a program ends early: [ErrInterrupted], unless ctx has another cause.
func Cause(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return ErrInterrupted
}

// Main runs a program until it is done or a signal interrupts it, and ends the process. Writes to out go to
// standard output. A failed write there makes the program fail, even if the program ignores the error. If the
// reader of the output goes away, writes to it fail, but the files that the program writes are not lost.
func Main(name string, run func(ctx context.Context, out io.Writer) error) {
	signal.Ignore(syscall.SIGPIPE)
	err := checkOpenFiles()
	if err == nil {
		ctx, stop := interruptible()
		out := &output{w: os.Stdout}
		err = out.join(run(ctx, out))
		stop()
	}
	end(name, err)
}

// Alone makes run fail if a launcher such as mpirun started several processes: all would do the same work.
func Alone(run func(ctx context.Context, out io.Writer) error) func(ctx context.Context, out io.Writer) error {
	return func(ctx context.Context, out io.Writer) error {
		if l, several := mpi.Launched(os.Getenv); several {
			if l.Rank > 0 {
				mpi.Fail()
				time.Sleep(ToldAfter)
			}
			return fmt.Errorf("%v, which would all do the same work: only training is divided among processes; start one process, without mpirun", l)
		}
		return run(ctx, out)
	}
}

// ToldAfter is how long a process holds back a failure that another process may report: the launcher kills all
// processes once one has ended.
const ToldAfter = time.Second

// end ends the process with the exit status and the message of an error.
func end(name string, err error) {
	status, silent := outcome(err)
	err, _ = LostServer(err, "start it again, and repeat the command")
	if !silent {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	exit(status)
}

// LostServer reports whether an error is about a lost RPC server. If so, it returns the part that names the
// server, with a remedy, and without the call that failed.
func LostServer(err error, remedy string) (error, bool) {
	var told *lostServer
	if errors.As(err, &told) {
		return told, true
	}
	var lost interface {
		error
		LostServer() string
	}
	if !errors.As(err, &lost) {
		return err, false
	}
	return &lostServer{lost.Error() + "; " + remedy, err}, true
}

type lostServer struct {
	text string
	error
}

func (e *lostServer) Error() string { return e.text }
func (e *lostServer) Unwrap() error { return e.error }

// exit ends the process. If status is a failure, it also ends the other processes of the launcher.
func exit(status int) {
	if status != 0 {
		mpi.Fail()
	}
	os.Exit(status)
}

// An output remembers the first error of a writer. Later writes are discarded without an error; the program
// reports the first one at its end.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return len(p), nil
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = fmt.Errorf("cannot write standard output: %w", filelink.SystemError(err))
	}
	return n, o.err
}

// join adds the error of the writer to err, unless err wraps it already.
func (o *output) join(err error) error {
	if o.err == nil || errors.Is(err, o.err) {
		return err
	}
	return errors.Join(err, o.err)
}

// Silent marks an error that another process reports: this process exits with its status and prints nothing.
func Silent(err error) error { return silentError{err} }

type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

// outcome returns the exit status of an error; a signal has the number that shells use.
func outcome(err error) (status int, silent bool) {
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE), true
	case errors.Is(err, ErrInterrupted):
		return 128 + int(syscall.SIGINT), isSilent(err)
	case errors.Is(err, context.Canceled):
		return 128 + int(syscall.SIGINT), true
	}
	return 1, isSilent(err)
}

func isSilent(err error) bool {
	var silent silentError
	return errors.As(err, &silent)
}
