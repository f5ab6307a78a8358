package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// An interruption cancels a program's context at a signal.
type interruption struct {
	mu      sync.Mutex
	instead func() // called at the next interrupt
}

type interruptionKey struct{}

// OnInterrupt makes the next interrupt call f instead of cancelling ctx, the context of [Main], unless stop is
// called first.
func OnInterrupt(ctx context.Context, f func()) (stop func()) {
	i, ok := ctx.Value(interruptionKey{}).(*interruption)
	if !ok {
		return func() {}
	}
	i.set(f)
	return func() { i.set(nil) }
}

func (i *interruption) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.instead = f
}

// handled reports whether a function of OnInterrupt handled the signal.
func (i *interruption) handled(s os.Signal) bool {
	if s != os.Interrupt {
		return false
	}
	i.mu.Lock()
	f := i.instead
	i.instead = nil
	i.mu.Unlock()
	if f == nil {
		return false
	}
	f()
	return true
}

// interruptible returns a context that is cancelled by an interrupt, a termination signal, or the end of the
// terminal. Signals that were ignored at start stay ignored: nohup ignores some, and a shell ignores interrupts
// for background jobs. A second signal ends the process at once.
func interruptible() (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	received := make(chan os.Signal, 1)
	if len(signals) > 0 { // without arguments, Notify would catch all signals
		signal.Notify(received, signals...)
	}
	i := &interruption{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), interruptionKey{}, i))
	go func() {
		defer signal.Stop(received)
		defer cancel()
		for {
			select {
			case s := <-received:
				if !i.handled(s) {
					rpcrelay.HurryAll()
					go ReportInterrupted(os.Stderr)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}
