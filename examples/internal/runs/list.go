package runs

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/llm/run"
)

// List opens the runs in a folder and slightly below it, sorted by name. The error joins the errors of the runs that
// cannot be opened.
func List(folder string) (list []*Run, err error) {
	found, err := run.List(folder)
	for _, r := range found {
		opened, fault := withConfig(r)
		if err = errors.Join(err, fault); fault == nil {
			list = append(list, opened)
		}
	}
	return list, err
}

// A Summary describes a run in one line.
type Summary struct {
	Run      string   `json:"run"`
	Model    string   `json:"model"`
	Data     []string `json:"data"`
	Step     int      `json:"step"`
	Steps    int      `json:"steps"`
	Loss     *float64 `json:"loss,omitempty"` // training loss of the last step
	BestLoss *float64 `json:"best_loss,omitempty"`
	BestStep int      `json:"best_step,omitempty"`
	State    string   `json:"state"`  // see [run.State]
	Status   string   `json:"status"` // state, time taken and time left
	Broken   int      `json:"broken_lines,omitempty"`
	Time     string   `json:"time"`              // start, UTC
	Adapter  string   `json:"adapter,omitempty"` // "" if none exists yet
}

// Summary describes the run from the files that can be read.
func (r *Run) Summary() Summary {
	s := Summary{Run: r.Path, Data: r.Paths("train-data"), Steps: r.Manifest.Steps}
	if model := r.Paths("model-base"); len(model) > 0 {
		s.Model = model[0]
	}
	p, _ := r.Progress() // as far as it can be read
	s.Step, s.State, s.Status, s.Broken = p.Step, string(r.State(p)), r.Describe(p), p.Broken
	if p.Step > 0 {
		s.Loss = &p.Loss
	}
	if p.Evaluated {
		s.BestLoss, s.BestStep = &p.BestLoss, p.BestStep
	}
	if at, err := r.Time(); err == nil {
		s.Time = at.UTC().Format("2006-01-02 15:04")
	}
	if path, err := r.AdapterPath(); err == nil {
		s.Adapter = path
	}
	return s
}

// BestText returns the best loss in words.
func (s *Summary) BestText() string {
	switch {
	case s.BestLoss != nil:
		return fmt.Sprintf("%.4f (step %d)", *s.BestLoss, s.BestStep)
	case s.Loss != nil:
		return fmt.Sprintf("%.4f (training)", *s.Loss)
	}
	return "–"
}
