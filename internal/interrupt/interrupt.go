// Package interrupt stops programs cleanly.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context is cancelled by an interrupt, a termination signal, or the end of the
// terminal, which nohup makes a program ignore. A second signal ends the process
// at once.
func Context() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
