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
	Data       string  `json:"data"`
	Adapters   bool    `json:"adapters"` // whether the adapters were active
	Loss       float64 `json:"loss"`     // nats per token
	Perplexity float64 `json:"perplexity"`
	Accuracy   float64 `json:"accuracy"` // share of tokens that the model ranks first
	Tokens     int     `json:"tokens"`
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
			e, err := evaluator.Evaluate(ctx, adapters, d)
			if err != nil {
				return nil, err
			}
			results = append(results, result{c.names[j], i > 0, e.Loss, e.Perplexity(), e.Accuracy, e.Tokens})
		}
	}
	return results, nil
}

func (c *evalCommand) print(out io.Writer, results []result) error {
	if c.JSON {
		return cli.WriteLines(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "data\tmodel\tloss\tperplexity\taccuracy\ttokens\t")
	for _, r := range results {
		what := "base"
		if r.Adapters {
			what = "adapted"
		}
		fmt.Fprintf(table, "%s\t%s\t%.4f\t%.4g\t%.1f %%\t%d\t\n", filepath.Base(r.Data), what, r.Loss, r.Perplexity, 100*r.Accuracy, r.Tokens)
	}
	return table.Flush()
}
