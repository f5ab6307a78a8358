package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// evalCommand measures a model, without and with adapters, as a run measures its held-out data.
type evalCommand struct {
	Config cli.ConfigFile `name:"config" basic:"" placeholder:"FILE" help:"YAML file with flags by their names; the command line overrules it." group:"Data"`
	Data   []string       `name:"data" basic:"" aliases:"valid-data,eval-data" needed:"" sep:"none" placeholder:"FILE" help:"Held-out data: text or records, as train takes them; by default that of the run. Can be given several times, and each is measured." group:"Data"`
	Max    int            `name:"samples" basic:"" aliases:"valid-samples" range:"-1|[1,)" default:"-1" help:"Largest number of samples of each that are measured, spread evenly; -1 for all." group:"Data"`
	training.TextFlags
	training.RecordFlags

	inference.ModelFlags `set:"ctx_help=Tokens of a sample, at most; 0 stands for 2048, or what the model was trained on if that is less."`
	JSON                 bool `name:"json" basic:"" help:"Write a line of JSON for each measurement instead of a table." group:"Report"`
}

// Foreign are flags of sessions, by which text was measured once.
func (c *evalCommand) Foreign() []cli.Foreign {
	return []cli.Foreign{
		{Names: words("cache-type"), Help: "A measurement keeps no cache.", Read: changesNothing("a measurement keeps no cache")},
		{Names: words("no-repack"), Bool: true, Help: "A measurement uses the weights as they are in the file.", Read: changesNothing("a measurement uses the weights as they are in the file")},
		{Names: words("stats"), Bool: true, Help: "There is no speed to write.", Read: changesNothing("a measurement writes no speed")},
	}
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
	m, err := c.Load(func(to *device.Demand, m *inference.Model) error {
		if err := c.takeLength(m.Model); err != nil {
			return err
		}
		full := data.New(c.Ctx, []data.Sample{{Tokens: make([]int32, c.Ctx+1)}})
		return train.AddEvaluationDemand(to, m.Model, m.Options.Adapters, train.EvaluatorOptions{}, full)
	})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := train.CheckModel(m.Model); err != nil {
		return err
	}
	if err := c.takeLength(m.Model); err != nil {
		return err
	}
	sets, err := c.load(ctx, m.Model)
	for _, d := range sets {
		defer d.Close()
	}
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	results, err := c.measure(ctx, m, sets)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	return c.print(out, results)
}

// takeLength finds the length of samples: that of the run, if there is one.
func (c *evalCommand) takeLength(m *model.Model) (err error) {
	if run := c.Opened(); run != nil && c.Ctx == 0 {
		if c.Ctx, err = strconv.Atoi(cmp.Or(run.Value("ctx"), "0")); err != nil {
			return fmt.Errorf("%s: ctx: %w", run.Path, err)
		}
	}
	c.Ctx, err = sampleLength(c.Ctx, m)
	return err
}

// load reads the held-out data: what is named, or what the run held out.
func (c *evalCommand) load(ctx context.Context, m *model.Model) (sets []*data.Dataset, err error) {
	read := training.DataFlags{Ctx: c.Ctx, TextFlags: c.TextFlags, RecordFlags: c.RecordFlags, ValidMax: c.Max}
	if len(c.Data) == 0 {
		c.Data = c.Opened().Paths("valid-data")
	}
	if len(c.Data) == 0 {
		d, err := c.loadSplit(ctx, m, read)
		return []*data.Dataset{d}, err
	}
	for _, path := range c.Data {
		d, err := read.LoadHeldOut(ctx, source(m), "--data", path)
		if err != nil {
			return sets, err
		}
		sets = append(sets, d)
	}
	return sets, nil
}

// loadSplit reads what the run held out of its training data.
func (c *evalCommand) loadSplit(ctx context.Context, m *model.Model, read training.DataFlags) (*data.Dataset, error) {
	run := c.Opened()
	split, err1 := strconv.ParseFloat(cmp.Or(run.Value("valid-split"), "0"), 64)
	seed, err2 := strconv.ParseInt(cmp.Or(run.Value("seed"), "0"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", run.Path, err)
	}
	read.TrainData, read.ValidSplit = run.Paths("train-data"), split
	d, name, err := read.HeldOut(ctx, source(m), uint64(seed))
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("the run in %s has no held-out data; name some by --data", run.Path)
	}
	c.Data = []string{name}
	return d, nil
}

// measure evaluates each set, by the model alone and then with its adapters.
func (c *evalCommand) measure(ctx context.Context, m *inference.Model, sets []*data.Dataset) (results []result, err error) {
	evaluator, err := train.NewEvaluator(m.Model, train.EvaluatorOptions{Engine: m.Options.Engine})
	if err != nil {
		return nil, err
	}
	defer evaluator.Close()
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
			results = append(results, result{c.Data[j], i > 0, e.Loss, e.Perplexity(), e.Accuracy, e.Tokens})
		}
	}
	return results, nil
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
