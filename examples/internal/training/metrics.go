package training

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	Tokens       int      `json:"tokens,omitempty"` // learned in the step, or evaluated
}

func stepLine(m train.StepMetrics) metricsLine {
	return metricsLine{Step: m.Step, Loss: &m.Loss, LearningRate: &m.LearningRate, GradNorm: &m.GradNorm, Tokens: m.Tokens}
}

func evalLine(e train.Evaluation) metricsLine {
	perplexity := e.Perplexity()
	return metricsLine{Step: e.Step, EvalLoss: &e.Loss, Perplexity: &perplexity, Accuracy: &e.Accuracy, Tokens: e.Tokens}
}

// A metricsFile gets a line for each step and evaluation as they come.
type metricsFile struct {
	path string
	file *os.File
	err  error // the first
}

// openMetrics continues the file from a step on: what is there of later ones was of steps
// that are taken again. "" opens none.
func openMetrics(path string, step int) (*metricsFile, error) {
	if path == "" {
		return &metricsFile{}, nil
	}
	var kept []byte
	if step > 0 {
		var err error
		if kept, err = linesUpTo(path, step); err != nil {
			return nil, fmt.Errorf("--metrics: %w", err)
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	m := &metricsFile{path: path, file: file}
	_, m.err = file.Write(kept)
	return m, nil
}

// linesUpTo are those of the steps up to one. A file that is not there has none.
func linesUpTo(path string, step int) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var kept []byte
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line metricsLine
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Step > step {
			break // a kill can leave a part of the last line
		}
		kept = append(append(kept, lines.Bytes()...), '\n')
	}
	return kept, lines.Err()
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

// close tells whether all lines were written.
func (m *metricsFile) close() error {
	if m.file == nil {
		return nil
	}
	if err := errors.Join(m.err, m.file.Close()); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}
