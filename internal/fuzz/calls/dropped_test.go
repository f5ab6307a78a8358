//go:build linux && cgo

package calls

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// dropped counts, by kind, the objects that the garbage collector closed; the binding logs them. The pool keeps
// all results, so these objects come from calls that failed.
var dropped droppedObjects

type droppedObjects struct {
	mu     sync.Mutex
	counts map[string]int
}

// take returns the counts and resets them.
func (d *droppedObjects) take() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := d.counts
	d.counts = nil
	return counts
}

func (d *droppedObjects) Enabled(context.Context, slog.Level) bool { return true }
func (d *droppedObjects) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d *droppedObjects) WithGroup(string) slog.Handler            { return d }

func (d *droppedObjects) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "garbage collected without Close") {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	r.Attrs(func(a slog.Attr) bool { d.counts[a.Value.String()]++; return true })
	return nil
}
