package train

import (
	"fmt"

	"github.com/goggml/ggml"
)

// A history is in a checkpoint as two arrays: the steps, and a row of values for each.
const (
	keyHistory     = "training.history"
	keyEvaluations = "training.validation"
)

func (t *Trainer) writeHistory(g *ggml.GGUF) error {
	var history, evaluations table
	for _, m := range t.History {
		history.add(m.Step, m.Loss, m.LearningRate, m.GradNorm)
	}
	for _, e := range t.Evaluations {
		evaluations.add(e.Step, e.Loss)
	}
	if err := history.write(g, keyHistory); err != nil {
		return err
	}
	return evaluations.write(g, keyEvaluations)
}

func readHistory(g *ggml.GGUF) (history []StepMetrics, evaluations []Evaluation, err error) {
	rows, err := readTable(g, keyHistory, 3)
	if err != nil {
		return nil, nil, err
	}
	for i, step := range rows.steps {
		v := rows.values[3*i:]
		history = append(history, StepMetrics{Step: int(step), Loss: v[0], LearningRate: v[1], GradNorm: v[2]})
	}
	if rows, err = readTable(g, keyEvaluations, 1); err != nil {
		return nil, nil, err
	}
	for i, step := range rows.steps {
		evaluations = append(evaluations, Evaluation{Step: int(step), Loss: rows.values[i]})
	}
	return history, evaluations, nil
}

// A table has a row of values for each of some steps.
type table struct {
	steps  []uint32
	values []float64
}

func (x *table) add(step int, values ...float64) {
	x.steps = append(x.steps, uint32(step))
	x.values = append(x.values, values...)
}

func (x *table) write(g *ggml.GGUF, key string) error {
	if len(x.steps) == 0 {
		return nil
	}
	if err := g.Set(key+".steps", x.steps); err != nil {
		return err
	}
	return g.Set(key+".values", x.values)
}

func readTable(g *ggml.GGUF, key string, columns int) (x table, err error) {
	if _, ok := g.Value(key + ".steps"); !ok {
		return table{}, nil
	}
	if x.steps, err = ggml.GGUFValue[[]uint32](g, key+".steps"); err != nil {
		return table{}, err
	}
	if x.values, err = ggml.GGUFValue[[]float64](g, key+".values"); err != nil {
		return table{}, err
	}
	if len(x.values) != columns*len(x.steps) {
		return table{}, fmt.Errorf("%s: key %s has %d values for %d steps", g.Name(), key, len(x.values), len(x.steps))
	}
	return x, nil
}
