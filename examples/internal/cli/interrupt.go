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

// An interruption ends a program's context at a signal.
type interruption struct {
	mu      sync.Mutex
	instead func() // for the next interrupt
}

type interruptionKey struct{}

// OnInterrupt makes the next interrupt call f instead of ending ctx, the context of [Main], unless
// stop is called before.
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

// handled reports whether something else than the program was interrupted.
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

// interruptible makes a context that is cancelled by an interrupt, a termination
// signal, or the end of the terminal. What the program was started to ignore stays
// ignored: nohup does so, and a shell with the interrupts of jobs in the background.
// A second signal ends the process at once.
func interruptible() (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	received := make(chan os.Signal, 1)
	if len(signals) > 0 { // of none, Notify takes all
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
