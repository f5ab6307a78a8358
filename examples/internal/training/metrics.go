package training

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/train"
)

// A metricsLine is a line of --metrics: of a step or of an evaluation.
type metricsLine struct {
	Step         int      `json:"step"`
	Loss         *float64 `json:"loss,omitempty"`
	LearningRate *float64 `json:"learning_rate,omitempty"`
	GradNorm     *float64 `json:"grad_norm,omitempty"`
	EvalLoss     *float64 `json:"eval_loss,omitempty"`
	Perplexity   *float64 `json:"eval_perplexity,omitempty"`
	Accuracy     *float64 `json:"eval_accuracy,omitempty"`
	Tokens       int      `json:"tokens,omitempty"` // trained in the step, or evaluated
}

func stepLine(m train.StepMetrics) metricsLine {
	return metricsLine{Step: m.Step, Loss: &m.Loss, LearningRate: &m.LearningRate, GradNorm: &m.GradNorm, Tokens: m.Tokens}
}

func evalLine(e train.Evaluation) metricsLine {
	line := metricsLine{Step: e.Step, EvalLoss: &e.Loss, Accuracy: &e.Accuracy, Tokens: e.Tokens}
	if p := e.Perplexity(); !math.IsInf(p, 1) { // which JSON does not have
		line.Perplexity = &p
	}
	return line
}

// A metricsFile gets a line for each step and evaluation as they come.
type metricsFile struct {
	path string
	file *os.File
	err  error // the first
}

// openMetrics begins the file with the steps and evaluations that a run has from its
// checkpoint: what was there of later ones is of steps that are taken again. The file
// replaces that of before at once; a pipe or a device gets what is new. "" opens none.
func openMetrics(path string, t *train.Trainer) (*metricsFile, error) {
	if path == "" {
		return &metricsFile{}, nil
	}
	m := &metricsFile{path: path}
	if err := m.open(t); err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	return m, nil
}

func (m *metricsFile) open(t *train.Trainer) (err error) {
	if !cli.IsReplaced(m.path) {
		m.file, err = os.OpenFile(m.path, os.O_WRONLY, 0)
		return err
	}
	target := m.path
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real
	}
	if m.file, err = os.Create(target + ".new"); err != nil {
		return err
	}
	m.addHistory(t.History, t.Evaluations)
	if err = errors.Join(m.err, os.Rename(m.file.Name(), target)); err != nil {
		return errors.Join(err, m.file.Close(), os.Remove(m.file.Name()))
	}
	return nil
}

// addHistory adds steps, each with the evaluation after it.
func (m *metricsFile) addHistory(steps []train.StepMetrics, evaluations []train.Evaluation) {
	evaluated := func(step int) {
		for len(evaluations) > 0 && evaluations[0].Step <= step {
			m.add(evalLine(evaluations[0]))
			evaluations = evaluations[1:]
		}
	}
	evaluated(0)
	for _, s := range steps {
		m.add(stepLine(s))
		evaluated(s.Step)
	}
}

func (m *metricsFile) add(line metricsLine) {
	if m.file == nil || m.err != nil {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = m.file.Write(append(text, '\n'))
	}
	m.err = err
}

// close reports whether all lines were written.
func (m *metricsFile) close() error {
	if m.file == nil {
		return nil
	}
	if err := errors.Join(m.err, m.file.Close()); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}
