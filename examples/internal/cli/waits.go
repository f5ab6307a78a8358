package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/goggml/ggml/internal/mpi"
	"github.com/goggml/ggml/internal/rpcrelay"
)

// A wait describes the wait for an RPC server or another process of the launcher.
type wait struct {
	whom    string
	current time.Duration // how long it has lasted
	left    time.Duration // time until it is given up, after an interrupt
	most    time.Duration // time that an interrupt allows
}

func waits() (list []wait) {
	for _, s := range rpcrelay.Waits() {
		if s.Current > 0 {
			list = append(list, wait{"RPC server " + s.Endpoint, s.Current, s.Left, s.Stall})
		}
	}
	if w, is := mpi.Waiting(); is {
		list = append(list, wait{w.Whom, w.Current, w.Left, mpi.Grace()})
	}
	return list
}

// reportAfter is how long an interrupted program may take before it reports whom it waits for. Open MPI
// interrupts all processes when one has failed, and kills them a second later.
const reportAfter = 1500 * time.Millisecond

// ReportWaits prints whom the program waits for, until ctx ends. It prints each time that another half of the time
// that an interrupt allows has passed.
func ReportWaits(ctx context.Context, printf func(format string, args ...any)) {
	reported := map[string]time.Duration{}
	eachTick(ctx, reportAfter, func() {
		for _, w := range waits() {
			passed := w.current.Truncate(w.most / 2)
			if passed > reported[w.whom] {
				printf("waiting for %s: no answer for %v; an interrupt ends the run within %v", w.whom, w.current.Round(time.Second), w.most)
			}
			reported[w.whom] = passed
		}
	})
}

// ticksAtHome is how many times reportAfter an interrupted program may compute or save on this machine before
// it reports that.
const ticksAtHome = 7

// ReportInterrupted reports once whom an interrupted program waits for, and for how long: a server, another
// process, or this machine, whose device or disk may be slow.
func ReportInterrupted(w io.Writer) { reportInterrupted(w, waits, reportAfter) }

func reportInterrupted(w io.Writer, waits func() []wait, tick time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticks := 0
	eachTick(ctx, tick, func() {
		list := waits()
		for _, wait := range list {
			if wait.current >= reportAfter {
				fmt.Fprintf(w, "interrupted: %s has not answered for %v; waiting at most %v more; a second interrupt ends the program at once\n",
					wait.whom, wait.current.Round(time.Second), wait.left.Round(time.Second))
				cancel()
			}
		}
		if ticks++; ticks >= ticksAtHome && len(list) == 0 {
			fmt.Fprintln(w, "interrupted: this machine is still computing or saving; the program ends after that, or at once with a second interrupt")
			cancel()
		}
	})
}

// eachTick calls f every tick until ctx ends.
func eachTick(ctx context.Context, tick time.Duration, f func()) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			f()
		}
	}
}
