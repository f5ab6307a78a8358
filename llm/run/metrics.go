package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/plainjson"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/llm/train"
)

// A Line is a line of the metrics: a step or an evaluation. Fields that belong to the other kind are nil.
type Line struct {
	Step         int      `json:"step"`
	Epoch        float64  `json:"epoch"`
	Loss         *float64 `json:"loss,omitempty"`
	LearningRate *float64 `json:"learning_rate,omitempty"`
	GradNorm     *float64 `json:"grad_norm,omitempty"`
	EvalLoss     *float64 `json:"eval_loss,omitempty"`
	Perplexity   *float64 `json:"eval_perplexity,omitempty"`
	Accuracy     *float64 `json:"eval_accuracy,omitempty"`
	Tokens       int      `json:"tokens,omitempty"` // tokens trained in the step, or evaluated
	*Rewards
	*Distilled
	Measured
}

// Rewards are the figures of a loss of preferences, of the step or of held-out data; nil for other losses.
type Rewards struct {
	Chosen   *float64 `json:"rewards_chosen,omitempty"` // nil without such answers
	Rejected *float64 `json:"rewards_rejected,omitempty"`
	Margin   *float64 `json:"rewards_margin,omitempty"`
	Accuracy *float64 `json:"rewards_accuracy,omitempty"`
	KL       *float64 `json:"kl,omitempty"` // of a loss that estimates it
}

// RewardsOf returns the rewards, or nil if there are none.
func RewardsOf(r *train.Rewards) *Rewards {
	if r == nil {
		return nil
	}
	number := func(x float64) *float64 {
		if math.IsNaN(x) || math.IsInf(x, 0) { // JSON has neither
			return nil
		}
		return &x
	}
	rewards := &Rewards{Chosen: number(r.Chosen), Rejected: number(r.Rejected), Margin: number(r.Margin()), Accuracy: number(r.Accuracy)}
	if r.KL != 0 {
		rewards.KL = number(r.KL)
	}
	return rewards
}

// Distilled are the terms of the loss beside a teacher, of the step or of held-out data; nil for other losses.
type Distilled struct {
	Divergence   float64 `json:"divergence"`
	CrossEntropy float64 `json:"cross_entropy"`
}

func distilledOf(d *train.Distilled) *Distilled {
	if d == nil {
		return nil
	}
	return &Distilled{d.Divergence, d.CrossEntropy}
}

// Measured are the figures that differ between identical runs; checkpoints do not contain them.
type Measured struct {
	Time            string  `json:"time,omitempty"` // end of the step or the evaluation, UTC
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	PeakShare       float64 `json:"peak_share,omitempty"` // TokensPerSecond as a share of the machine's peak
	Memory          uint64  `json:"memory,omitempty"`     // resident set size of the process, bytes
}

// ParseLine reads a line of the metrics.
func ParseLine(text []byte) (l Line, err error) {
	if err = plainjson.Unmarshal(text, &l); err == nil && (l.Loss == nil && l.EvalLoss == nil || l.Step < 0) {
		err = errors.New("it has neither a step nor an evaluation")
	}
	return l, err
}

func stepLine(m train.StepMetrics) Line {
	return Line{Step: m.Step, Epoch: shortEpoch(m), Loss: &m.Loss, LearningRate: &m.LearningRate, GradNorm: &m.GradNorm, Tokens: m.Tokens, Rewards: RewardsOf(m.Rewards), Distilled: distilledOf(m.Distilled)}
}

// shortEpoch rounds away meaningless digits.
func shortEpoch(m train.StepMetrics) float64 { return math.Round(1e5*m.Epoch) / 1e5 }

// evalLine returns the line of an evaluation; steps is the history before it.
func evalLine(e train.Evaluation, steps []train.StepMetrics) Line {
	line := Line{Step: e.Step, EvalLoss: &e.Loss, Accuracy: &e.Accuracy, Tokens: e.Tokens, Rewards: RewardsOf(e.Rewards), Distilled: distilledOf(e.Distilled)}
	if e.Step > 0 {
		line.Epoch = shortEpoch(steps[e.Step-1])
	}
	if p := e.Perplexity(); line.Rewards == nil && !math.IsInf(p, 1) { // JSON has no infinity
		line.Perplexity = &p
	}
	return line
}

// A metricsFile appends a line for each step and evaluation.
type metricsFile struct {
	File
	file   *os.File
	err    error // the first error
	events eventFile
	peak   func(reached float64) float64 // Options.Peak
}

// openMetrics begins the file with the steps and evaluations of the checkpoint; it drops later lines, because the
// run repeats their steps. The new file replaces the old one atomically and keeps its measurements; a pipe or a
// device gets only new lines. Without a path no file is opened. TensorBoard's events go to the folder events, unless
// it is "".
func openMetrics(f File, events string, peak func(reached float64) float64, t *train.Trainer) (*metricsFile, error) {
	m := &metricsFile{File: f, events: eventFile{folder: events, step: t.Steps()}, peak: peak}
	if f.Path == "" {
		return m, nil
	}
	return m, f.named(m.open(t))
}

func (m *metricsFile) open(t *train.Trainer) (err error) {
	if filelink.IsReplaced(m.Path) {
		before := readMeasured(m.Path)
		err := filelink.Write(m.Path, func(w io.Writer) error {
			return writeHistory(w, t.History, t.Evaluations, before)
		})
		if err != nil {
			return err
		}
	}
	m.file, err = filelink.OpenLog(m.Path)
	return err
}

// A lineKey identifies a line of a run.
type lineKey struct {
	step       int
	evaluation bool
	loss       float64
}

func (l Line) key() lineKey {
	if l.EvalLoss != nil {
		return lineKey{l.Step, true, *l.EvalLoss}
	}
	return lineKey{l.Step, false, *l.Loss}
}

// readMeasured reads the measurements of a file's lines. It skips broken lines, and returns nil if it cannot read
// the file.
func readMeasured(path string) map[lineKey]Measured {
	text, err := filelink.Read(path, filelink.MaxMetrics)
	if err != nil {
		return nil
	}
	found := map[lineKey]Measured{}
	for line := range bytes.Lines(text) {
		if l, err := ParseLine(line); err == nil {
			found[l.key()] = l.Measured
		}
	}
	return found
}

// writeHistory writes the steps, each followed by its evaluation, with their measurements.
func writeHistory(w io.Writer, steps []train.StepMetrics, evaluations []train.Evaluation, before map[lineKey]Measured) (err error) {
	lines := json.NewEncoder(w)
	add := func(line Line) {
		line.Measured = before[line.key()]
		err = errors.Join(err, lines.Encode(line))
	}
	evaluated := func(step int) {
		for len(evaluations) > 0 && evaluations[0].Step <= step {
			add(evalLine(evaluations[0], steps))
			evaluations = evaluations[1:]
		}
	}
	evaluated(0)
	for _, s := range steps {
		add(stepLine(s))
		evaluated(s.Step)
	}
	return err
}

// addNow adds a line for a step or evaluation that has just ended.
func (m *metricsFile) addNow(line Line, tokensPerSecond float64) {
	if m.file == nil && m.events.folder == "" {
		return
	}
	line.Measured = Measured{
		Time:            time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		TokensPerSecond: math.Round(10*tokensPerSecond) / 10, Memory: rss.Now(),
	}
	if m.peak != nil && tokensPerSecond > 0 {
		if peak := m.peak(tokensPerSecond); peak > 0 {
			line.PeakShare = math.Round(1e4*tokensPerSecond/peak) / 1e4
		}
	}
	m.add(line)
	m.events.add(line)
}

func (m *metricsFile) add(line Line) {
	if m.file == nil || m.err != nil {
		return
	}
	text, err := json.Marshal(line)
	if err == nil {
		err = filelink.AddTo(m.file, append(text, '\n'))
	}
	m.err = err
}

// close closes the file and returns the first error.
func (m *metricsFile) close() error {
	lost := m.events.close()
	if m.file == nil {
		return lost
	}
	return errors.Join(m.named(errors.Join(m.err, m.file.Close())), lost)
}
