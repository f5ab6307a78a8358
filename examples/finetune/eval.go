package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// evalCommand evaluates a model, without and with adapters, as a run evaluates its held-out data.
type evalCommand struct {
	Config cli.ConfigFile `name:"config" basic:"" placeholder:"FILE" help:"YAML file with flags by their names, such as a run's config.yaml; the command line overrules it." group:"Data"`
	heldOutFlags
	inference.ModelFlags `set:"ctx_help=Tokens of a sample, at most; 0 stands for 2048, or what the model was trained on if that is less."`
	JSON                 bool `name:"json" basic:"" help:"Write a line of JSON for each measurement instead of a table." group:"Report"`
}

// Foreign returns flags of sessions, which an older version used to evaluate.
func (c *evalCommand) Foreign() []cli.Foreign {
	return []cli.Foreign{
		{Names: words("cache-type"), Help: "No effect: evaluation keeps no KV cache.", Read: changesNothing("evaluation keeps no KV cache")},
		{Names: words("no-repack"), Bool: true, Help: "No effect: evaluation does not repack the weights.", Read: changesNothing("evaluation does not repack the weights")},
		{Names: words("stats"), Bool: true, Help: "No effect: evaluation reports no speed.", Read: changesNothing("evaluation reports no speed")},
	}
}

// A result is a line of the report.
type result struct {
	Data     string `json:"data"`
	Adapters bool   `json:"adapters"` // whether the adapters were active
	measurement
}

// A measurement is the result of a model on a data set.
type measurement struct {
	Loss       float64 `json:"loss"` // nats per token, or the loss of preferences
	Perplexity float64 `json:"perplexity,omitempty"`
	Accuracy   float64 `json:"accuracy"` // share of tokens that the model ranks first, or of answers that the loss judges rightly
	Tokens     int     `json:"tokens,omitempty"`
	*judged
}

// A judged is the part of a measurement that a loss of preferences has instead of tokens.
type judged struct {
	By      string `json:"by"`      // the loss with its settings
	Answers int    `json:"answers"` // pairs or labelled answers
	*run.Rewards
}

// newResult returns the line for a measured data set.
func (f *heldOutFlags) newResult(name string, rows []train.RowEvaluation, rewards *train.Rewards) (r result, err error) {
	e, err := train.Total(rows)
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	r = result{Data: name, measurement: measurement{Loss: e.Loss, Accuracy: e.Accuracy}}
	if rewards == nil {
		r.Perplexity, r.Tokens = e.Perplexity(), e.Tokens
		return r, nil
	}
	o, err := f.judge.options()
	r.judged = &judged{o.String(), e.Tokens, run.RewardsOf(rewards)}
	return r, err
}

// cells returns perplexity, accuracy and counts as cells of a table.
func (m measurement) cells() string {
	if m.judged == nil {
		return fmt.Sprintf("%.4g\t%.1f %%\t%d", m.Perplexity, 100*m.Accuracy, m.Tokens)
	}
	return fmt.Sprintf("–\t%.1f %%\t%d", 100*m.Accuracy, m.Answers)
}

// Run evaluates and prints a table.
func (c *evalCommand) Run(ctx context.Context, out io.Writer) error {
	defer c.close()
	var results []result
	err := c.measure(ctx, &c.ModelFlags, []*runs.Run{c.Opened()}, func(m *inference.Model, e *train.Evaluator, sets []*data.Dataset) (err error) {
		results, err = c.evaluate(ctx, m, e, sets)
		return err
	})
	if err != nil {
		return err
	}
	return c.print(out, results)
}

// evaluate evaluates each data set, first with the model alone and then with its adapters.
func (c *evalCommand) evaluate(ctx context.Context, m *inference.Model, evaluator *train.Evaluator, sets []*data.Dataset) (results []result, err error) {
	passes := []model.Adapters{nil}
	if len(c.LoRA) > 0 {
		passes = append(passes, m.Options.Adapters)
	}
	for i, adapters := range passes {
		for j, d := range sets {
			rows, rewards, err := c.evaluateRows(ctx, m.Model, evaluator, adapters, d)
			if err != nil {
				return nil, err
			}
			r, err := c.newResult(c.names[j], rows, rewards)
			if err != nil {
				return nil, err
			}
			r.Adapters = i > 0
			results = append(results, r)
		}
	}
	return results, nil
}

func (c *evalCommand) print(out io.Writer, results []result) error {
	if c.JSON {
		return cli.WriteLines(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "data\tmodel\tloss\tperplexity\taccuracy\t%s\t\n", c.judge.counts())
	for _, r := range results {
		what := "base"
		if r.Adapters {
			what = "adapted"
		}
		fmt.Fprintf(table, "%s\t%s\t%.4f\t%s\t\n", filepath.Base(r.Data), what, r.Loss, r.cells())
	}
	return table.Flush()
}
