package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// A checkpoint stores a history as two arrays: the steps, and a row of values per step.
const (
	keyHistory     = "training.history"
	keyEvaluations = "training.validation"
)

// Numbers of columns: with rewards, beside a teacher, without either, and the numbers in checkpoints from before a column
// existed.
var (
	historyColumns    = []int{10, 8, 6, 4, 3}
	evaluationColumns = []int{7, 5, 3, 1}
)

func (t *Trainer) writeHistory(g *ggml.GGUF) error {
	var history, evaluations table
	for _, m := range t.History {
		values := []float64{m.Loss, m.LearningRate, m.GradNorm, float64(m.Tokens), float64(m.RowTokens), m.Epoch}
		history.add(m.Step, append(append(values, m.Rewards.columns()...), m.Distilled.columns()...)...)
	}
	for _, e := range t.Evaluations {
		values := []float64{e.Loss, e.Accuracy, float64(e.Tokens)}
		evaluations.add(e.Step, append(append(values, e.Rewards.columns()...), e.Distilled.columns()...)...)
	}
	if err := history.write(g, keyHistory); err != nil {
		return err
	}
	return evaluations.write(g, keyEvaluations)
}

func readHistory(g *ggml.GGUF) (history []StepMetrics, evaluations []Evaluation, err error) {
	rows, err := readTable(g, keyHistory, historyColumns)
	if err != nil {
		return nil, nil, err
	}
	for i, step := range rows.steps {
		v := rows.row(i, historyColumns[0])
		history = append(history, StepMetrics{
			Step: int(step), Loss: v[0], LearningRate: v[1], GradNorm: v[2], Tokens: count(v[3]), RowTokens: count(v[4]), Epoch: v[5],
			Rewards: rewardsIn(rows, v), Distilled: distilledIn(rows, historyColumns[2], v),
		})
	}
	if rows, err = readTable(g, keyEvaluations, evaluationColumns); err != nil {
		return nil, nil, err
	}
	for i, step := range rows.steps {
		v := rows.row(i, evaluationColumns[0])
		evaluations = append(evaluations, Evaluation{Step: int(step), Loss: v[0], Accuracy: v[1], Tokens: count(v[2]), Rewards: rewardsIn(rows, v), Distilled: distilledIn(rows, evaluationColumns[2], v)})
	}
	return history, evaluations, nil
}

// columns returns the rewards as columns; none without rewards.
func (r *Rewards) columns() []float64 {
	if r == nil {
		return nil
	}
	return []float64{r.Chosen, r.Rejected, r.Accuracy, r.KL}
}

// rewardsIn returns the rewards in the last columns of a row, or nil if the table has none.
func rewardsIn(x table, row []float64) *Rewards {
	if len(x.values) < len(row)*len(x.steps) {
		return nil
	}
	last := row[len(row)-4:]
	return &Rewards{last[0], last[1], last[2], last[3]}
}

// columns returns the terms as columns; none without a teacher.
func (d *Distilled) columns() []float64 {
	if d == nil {
		return nil
	}
	return []float64{d.Divergence, d.CrossEntropy}
}

// distilledIn returns the terms in the two columns after the plain ones of a row, or nil if the table has other columns.
func distilledIn(x table, plain int, row []float64) *Distilled {
	if len(x.values) != (plain+2)*len(x.steps) {
		return nil
	}
	return &Distilled{row[plain], row[plain+1]}
}

// count converts x to a count; −1 if x is invalid.
func count(x float64) int {
	const most = 1 << 53 // integers up to here are exact in float64
	if x >= 0 && x <= most && x == math.Trunc(x) {
		return int(x)
	}
	return -1
}

// A table has a row of values per step.
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

// row returns the row of step i, extended by zeros to the given number of columns.
func (x *table) row(i, columns int) []float64 {
	own := len(x.values) / len(x.steps)
	return append(slices.Clone(x.values[i*own:(i+1)*own]), make([]float64, columns-own)...)
}

// readTable reads a table with one of the allowed numbers of columns.
func readTable(g *ggml.GGUF, key string, columns []int) (x table, err error) {
	if _, ok := g.Value(key + ".steps"); !ok {
		return table{}, nil
	}
	if x.steps, err = ggml.GGUFValue[[]uint32](g, key+".steps"); err != nil {
		return table{}, err
	}
	if x.values, err = ggml.GGUFValue[[]float64](g, key+".values"); err != nil {
		return table{}, err
	}
	if !slices.ContainsFunc(columns, func(n int) bool { return len(x.values) == n*len(x.steps) }) {
		return table{}, fmt.Errorf("%s: key %s has %d values for %d steps", g.Name(), key, len(x.values), len(x.steps))
	}
	return x, nil
}
