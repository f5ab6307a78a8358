package runs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// depth is how many folders below one are looked through for runs.
const depth = 2

// List opens the runs in a folder and a little below it, in the order of their names. What
// cannot be opened is in the error.
func List(folder string) ([]*Run, error) {
	if _, err := os.ReadDir(folder); err != nil {
		return nil, err
	}
	var list []*Run
	err := walk(folder, depth, func(path string) error {
		r, err := Open(path)
		if err == nil {
			list = append(list, r)
		}
		return err
	})
	return list, err
}

// walk visits the folders of runs.
func walk(folder string, depth int, visit func(path string) error) error {
	if _, err := os.Stat(filepath.Join(folder, manifest)); err == nil {
		return visit(folder)
	}
	if depth == 0 {
		return nil
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); !strings.HasPrefix(e.Name(), ".") && isFolder(path) {
			errs = append(errs, walk(path, depth-1, visit))
		}
	}
	return errors.Join(errs...)
}

// A Summary is what a run is in a line.
type Summary struct {
	Run      string   `json:"run"`
	Model    string   `json:"model"`
	Data     []string `json:"data"`
	Step     int      `json:"step"`
	Steps    int      `json:"steps"`
	Loss     *float64 `json:"loss,omitempty"` // of training, in the last step
	BestLoss *float64 `json:"best_loss,omitempty"`
	BestStep int      `json:"best_step,omitempty"`
	Time     string   `json:"time"`              // of the last command, UTC
	Adapter  string   `json:"adapter,omitempty"` // "" while there is none
}

// Summary describes the run as far as its files do.
func (r *Run) Summary() Summary {
	s := Summary{Run: r.Path, Data: r.Paths("train-data"), Steps: r.Manifest.Steps}
	if model := r.Paths("model-base"); len(model) > 0 {
		s.Model = model[0]
	}
	if p, err := r.Progress(); err == nil {
		s.Step = p.Step
		if p.Step > 0 {
			s.Loss = &p.Loss
		}
		if p.Evaluated {
			s.BestLoss, s.BestStep = &p.BestLoss, p.BestStep
		}
	}
	if at, err := r.Time(); err == nil {
		s.Time = at.UTC().Format("2006-01-02 15:04")
	}
	if path, err := r.AdapterPath(); err == nil {
		s.Adapter = path
	}
	return s
}

// BestText is the best loss in words.
func (s *Summary) BestText() string {
	switch {
	case s.BestLoss != nil:
		return fmt.Sprintf("%.4f (step %d)", *s.BestLoss, s.BestStep)
	case s.Loss != nil:
		return fmt.Sprintf("%.4f (training)", *s.Loss)
	}
	return "–"
}
