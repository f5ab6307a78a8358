package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goggml/ggml/internal/filelock"
	"github.com/goggml/ggml/llm/train"
)

// A State says whether a run is running, or how it ended.
type State string

// The states of a run.
const (
	Running    State = "running"
	Done       State = "done"
	EndedEarly State = "ended early" // before its last step, see [train.Trainer.Ended]
	Stopped    State = "stopped"     // interrupted or killed; the same command continues it
	Diverged   State = "diverged"    // see [train.ErrDiverged]
	Failed     State = "failed"      // with another error
)

// End records in the manifest how the run ended, given the results of [Train]. A nil folder has no manifest.
func (f *Folder) End(out Outcome, err error) error {
	if f == nil {
		return nil
	}
	if err := f.acquire("Folder.End"); err != nil {
		return err
	}
	defer f.access.Release()
	m, found, readErr := ReadManifest(f.Path)
	if readErr != nil || !found {
		return readErr
	}
	switch {
	case out.Complete && out.Steps < out.Total:
		m.State = EndedEarly
	case out.Complete:
		m.State = Done
	case out.Stopped:
		m.State = Stopped
	case errors.Is(err, train.ErrDiverged):
		m.State = Diverged
	default:
		m.State = Failed
	}
	return m.write(f.Path)
}

// State returns the state of the run. A run of an older version that has not reached its last step counts as
// stopped.
func (r *Run) State(p Progress) State {
	switch {
	case r == nil:
		return ""
	case r.Manifest.State != "":
		return r.Manifest.State
	case r.isLocked():
		return Running
	case p.Step >= r.Manifest.Steps:
		return Done
	}
	return Stopped
}

// isLocked reports whether a process has locked the folder.
func (r *Run) isLocked() bool {
	path := filepath.Join(r.Path, lock)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(filelock.Lock(file), filelock.ErrLocked)
}

// Left estimates the time of the remaining steps; it is 0 if unknown.
func (r *Run) Left(p Progress) time.Duration {
	if r == nil || p.Step == 0 || p.Step >= r.Manifest.Steps {
		return 0
	}
	return p.Taken / time.Duration(p.Step) * time.Duration(r.Manifest.Steps-p.Step)
}

// Describe returns the state of the run in words, with the time taken and the time left.
func (r *Run) Describe(p Progress) string {
	s := r.State(p)
	if p.Taken <= 0 {
		return string(s)
	}
	taken := p.Taken.Round(time.Second)
	switch left := r.Left(p).Round(time.Second); {
	case s == Running && left > 0:
		return fmt.Sprintf("%s for %v, about %v left", s, taken, left)
	case s == Running:
		return fmt.Sprintf("%s for %v", s, taken)
	case s == Done:
		return fmt.Sprintf("%s in %v", s, taken)
	}
	return fmt.Sprintf("%s after %v", s, taken)
}
