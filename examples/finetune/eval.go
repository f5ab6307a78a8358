package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/evaluation"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/train"
)

// evalCommand measures a model, without and with adapters, by the arithmetic of generation.
type evalCommand struct {
	Config cli.ConfigFile `name:"config" placeholder:"FILE" help:"YAML file with flags by their names; the command line overrules it." group:"Data"`
	Data   []string       `name:"data" aliases:"valid-data,eval-data" required:"" sep:"none" placeholder:"FILE" help:"Held-out data: text or records, as train takes them. Can be given several times, and each is measured." group:"Data"`
	Max    int            `name:"samples" aliases:"valid-samples" range:"[0,)" default:"0" help:"Largest number of samples of each that are measured, spread evenly; 0 for all." group:"Data"`
	training.TextFlags
	training.RecordFlags

	inference.ModelFlags `set:"ctx_help=Tokens of a sample, at most; 0 stands for 2048, or what the model was trained on if that is less."`
	JSON                 bool `name:"json" help:"Write a line of JSON for each measurement instead of a table." group:"Report"`
}

// A result is a line of the report.
type result struct {
	Data       string  `json:"data"`
	Adapters   bool    `json:"adapters"` // whether they acted
	Loss       float64 `json:"loss"`     // nats a token
	Perplexity float64 `json:"perplexity"`
	Accuracy   float64 `json:"accuracy"` // share of the tokens that are the most probable ones
	Tokens     int     `json:"tokens"`
}

// Run measures, and writes a table.
func (c *evalCommand) Run(ctx context.Context, out io.Writer) error {
	m, err := c.Load(1)
	if err != nil {
		return err
	}
	defer m.Close()
	if c.Ctx, err = sampleLength(c.Ctx, m.Model); err != nil {
		return err
	}
	var sets []*data.Dataset
	read := training.DataFlags{Ctx: c.Ctx, TextFlags: c.TextFlags, RecordFlags: c.RecordFlags, ValidMax: c.Max}
	for _, path := range c.Data {
		d, err := read.LoadHeldOut(ctx, source(m.Model), "--data", path)
		if err != nil {
			return cli.Interrupted(ctx, err, "nothing is lost")
		}
		defer d.Close()
		sets = append(sets, d)
	}
	var results []result
	options := m.Options
	options.Context = c.Ctx
	passes := []bool{false}
	if len(c.LoRA) > 0 {
		passes = append(passes, true)
	}
	for _, adapted := range passes {
		options.Adapters = nil
		if adapted {
			options.Adapters = m.Options.Adapters
		}
		list, err := c.measure(ctx, m, options, sets)
		if err != nil {
			return cli.Interrupted(ctx, err, "nothing is lost")
		}
		for i, e := range list {
			results = append(results, result{c.Data[i], adapted, e.Loss, e.Perplexity(), e.Accuracy, e.Tokens})
		}
	}
	return c.print(out, results)
}

func (c *evalCommand) measure(ctx context.Context, m *inference.Model, o infer.SessionOptions, sets []*data.Dataset) ([]train.Evaluation, error) {
	s, err := infer.NewSession(m.Model, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var list []train.Evaluation
	for _, d := range sets {
		e, err := evaluation.Session(ctx, s, d)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (c *evalCommand) print(out io.Writer, results []result) error {
	if c.JSON {
		lines := json.NewEncoder(out)
		for _, r := range results {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return nil
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
