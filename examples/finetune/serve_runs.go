package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/serve"
)

// servedRuns are the runs in a folder, each of which is a model with the name of its folder. Runs on another model are left
// out.
type servedRuns struct {
	folder string
	model  os.FileInfo // of the served model's file
	served *llm.Model
	h      *serve.Handler
	log    io.Writer
	open   map[string]servedRun // by name
	faults map[string]string    // that were reported, by name
}

// A servedRun is the adapter of a run as it was when it was opened.
type servedRun struct {
	adapter *llm.Adapter
	path    string
	changed time.Time
}

// watchInterval is how long a new run may wait until it is served.
const watchInterval = 2 * time.Second

func (s *servedRuns) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
			s.refresh(ctx)
		}
	}
}

// refresh opens the adapters of new runs, and those that a run has replaced, and closes others.
func (s *servedRuns) refresh(ctx context.Context) {
	list, _ := runs.List(s.folder) // those that can be read
	now, changed := map[string]servedRun{}, false
	for _, r := range list {
		name := filepath.Base(filepath.Clean(r.Path))
		found, err := s.find(ctx, name, r)
		if err != nil {
			if s.faults[name] != err.Error() {
				fmt.Fprintf(s.log, "%s is not served: %v\n", r.Path, err)
			}
			s.faults[name] = err.Error()
			continue
		}
		delete(s.faults, name)
		if found.adapter != nil {
			now[name] = found
			changed = changed || now[name] != s.open[name]
		}
	}
	if !changed && len(now) == len(s.open) {
		return
	}
	named := map[string]*llm.Adapter{}
	for name, r := range now {
		named[name] = r.adapter
		if s.open[name] != r {
			fmt.Fprintf(s.log, "serving %s: %s\n", name, r.path)
		}
	}
	s.h.SetAdapters(named)
	for name, r := range s.open {
		if now[name].adapter != r.adapter {
			go r.adapter.Close(ctx) // when its requests have ended
		}
	}
	s.open = now
}

// find returns the adapter of a run: the open one unless it has changed; none if the run has no adapter yet, or another model.
func (s *servedRuns) find(ctx context.Context, name string, r *runs.Run) (servedRun, error) {
	base, err := r.Model()
	if err != nil {
		return servedRun{}, err
	}
	info, err := os.Stat(base)
	if err != nil || !os.SameFile(info, s.model) {
		return servedRun{}, err
	}
	path, err := r.AdapterPath()
	if err != nil {
		return servedRun{}, nil // it has none yet
	}
	if info, err = os.Stat(path); err != nil {
		return servedRun{}, err
	}
	found := servedRun{path: path, changed: info.ModTime()}
	if open := s.open[name]; open.path == path && open.changed.Equal(found.changed) {
		return open, nil
	}
	if found.adapter, err = s.served.LoadAdapter(ctx, path, 1); errors.Is(err, os.ErrNotExist) {
		return servedRun{}, nil // replaced meanwhile
	}
	return found, err
}
