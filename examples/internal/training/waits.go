package training

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/llm/parallel"
)

// waitReports prints above the progress line, if there is one, and otherwise to standard error. nil prints nothing.
type waitReports struct{ line atomic.Pointer[progress.Line] }

func (r *waitReports) above(line *progress.Line) (stop func()) {
	if r == nil {
		return func() {}
	}
	r.line.Store(line)
	return func() { r.line.Store(nil) }
}

func (r *waitReports) print(format string, args ...any) {
	if line := r.line.Load(); line != nil {
		line.Printf(format, args...)
		return
	}
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// serverWaits reports how long steps have waited for each server, or "" without servers.
func serverWaits(before []rpcrelay.Wait, steps int, took time.Duration) string {
	var list []string
	for i, s := range rpcrelay.Waits() {
		if i < len(before) && steps > 0 {
			waited := s.Total - before[i].Total
			list = append(list, fmt.Sprintf("%s took %s", s.Endpoint, perStep(waited, steps, took)))
		}
	}
	if list == nil {
		return ""
	}
	return "servers: waiting for " + strings.Join(list, ", for ")
}

// perStep formats a wait per step, and its share of the whole time.
func perStep(waited time.Duration, steps int, took time.Duration) string {
	return fmt.Sprintf("%.1f ms per step, %.3g %% of the time", waited.Seconds()*1e3/float64(steps), 100*waited.Seconds()/took.Seconds())
}

// slowest names the process that the others wait for, with the milliseconds per step that each waits; "" if all
// wait about as long.
func slowest(processes []parallel.Process, waited []float64) string {
	least := slices.Min(waited)
	if least > slices.Max(waited)/2 {
		return ""
	}
	return fmt.Sprintf("; the others wait for %s, which itself waited %.1f ms", processes[slices.Index(waited, least)], least)
}
