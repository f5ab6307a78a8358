package preference

import (
	"context"
	"errors"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Evaluate measures data of pairs or labelled answers by the loss, for the model with adapters or none, as evaluations
// of a run do. There is a RowEvaluation of weight 1 for each pair or labelled answer, with what it adds to the loss and
// whether it is judged rightly, for [train.Compare]; [train.Total] has the loss and the accuracy. reference has all
// samples of the data; losses without a reference ignore it.
func (o Options) Evaluate(ctx context.Context, e *train.Evaluator, adapters model.Adapters, d *data.Dataset, reference *Reference) ([]train.RowEvaluation, train.Rewards, error) {
	o, err := o.complete()
	switch {
	case err != nil:
		return nil, train.Rewards{}, err
	case o.HasReference() && reference == nil:
		return nil, train.Rewards{}, errors.New("the reference is nil")
	}
	samples, logProbs, err := e.SampleLogProbs(ctx, adapters, d)
	if err != nil {
		return nil, train.Rewards{}, err
	}
	rows, rewards := o.evaluate(o.sides(samples, logProbs, reference))
	return rows, rewards, nil
}

// evaluate returns the evaluation of each pair or labelled answer.
func (o *Options) evaluate(sides []side) ([]train.RowEvaluation, train.Rewards) {
	losses, _ := o.losses(sides)
	var rows []train.RowEvaluation
	for i, isRight := range o.judged(sides) {
		r := train.RowEvaluation{Loss: losses[i], Weight: 1, Tokens: 1}
		if !o.JudgesLabels() {
			r.Loss += losses[i+1]
		}
		if isRight {
			r.Correct = 1
		}
		rows = append(rows, r)
	}
	for i := range rows { // the loss is a mean
		rows[i].Loss *= float64(len(rows))
	}
	return rows, o.rewards(sides)
}
