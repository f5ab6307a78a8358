package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/preference"
)

// inspectCommand checks data, template and vocabulary together, before a long run.
type inspectCommand struct {
	ModelBase string         `name:"model-base" aliases:"model,model-name-or-path,model-name" short:"m" required:"" placeholder:"FILE" help:"GGUF model with the vocabulary and the chat template for the data." group:"Data" basic:""`
	Config    cli.ConfigFile `name:"config" basic:"" placeholder:"FILE" help:"YAML file with flags by their names, such as a run's config.yaml; the command line overrules it." group:"Data"`
	training.DataFlags
	Loss    string   `name:"loss" placeholder:"LOSS" help:"Loss that compares or judges answers, such as dpo or kto: the data is read as for it." group:"Data"`
	Samples int      `name:"samples" basic:"" range:"[0,)" default:"3" help:"How many samples are shown, spread evenly over the data; 0 for none." group:"Report"`
	HTML    string   `name:"html" basic:"" placeholder:"FILE" help:"Also write the report as an HTML page." group:"Report"`
	Ignore  []string `name:"ignore" basic:"" placeholder:"NAME" help:"A finding that does not make the command fail, by its name, such as padding. Can be given several times, or with commas." group:"Report"`
	JSON    bool     `name:"json" basic:"" help:"Write the report as JSON." group:"Report"`
}

// errRuined reports data that ruins a run.
var errRuined = errors.New("the data has errors that ruin training; --ignore NAME accepts a finding")

// Run writes the report. It returns an error if a finding ruins a run.
func (c *inspectCommand) Run(ctx context.Context, out io.Writer) error {
	for _, name := range c.Ignore {
		if names := data.FindingNames(); !slices.Contains(names, name) {
			return fmt.Errorf("--ignore %s: unknown finding; expected one of %s", name, strings.Join(names, ", "))
		}
	}
	if len(c.TrainData) == 0 {
		return errors.New("missing flags: --train-data=FILE")
	}
	inputs := append(c.Files(), cli.File{Flag: "--model-base", Path: c.ModelBase}, cli.File{Flag: "--config", Path: string(c.Config)})
	if err := cli.CheckOutputs(inputs, []cli.File{{Flag: "--html", Path: c.HTML}}); err != nil {
		return err
	}
	if err := c.setAnswers(); err != nil {
		return err
	}
	m, err := model.Load(c.ModelBase, model.LoadOptions{})
	if err != nil {
		return cli.ModelError("--model-base", c.ModelBase, err)
	}
	defer m.Close()
	if err := checkVocabulary(m); err != nil {
		return err
	}
	if c.Ctx, err = sampleLength(c.Ctx, m); err != nil {
		return err
	}
	found, err := c.Inspect(ctx, source(m), c.Samples)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	r := &inspectReport{Inspection: found, m: m, ignored: c.Ignore}
	out = cli.Aside(out, c.HTML)
	if c.HTML != "" {
		if err := r.savePage(c.HTML); err != nil {
			return err
		}
	}
	write := r.writeText
	if c.JSON {
		write = r.writeJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if found.Ruined(c.Ignore...) {
		return errRuined
	}
	return nil
}

// setAnswers has the data read as the loss needs it.
func (c *inspectCommand) setAnswers() error {
	loss := lossFlags{Loss: c.Loss}
	if !loss.prefers() {
		return nil
	}
	o, err := loss.options()
	if err == nil {
		_, err = preference.New(o, &preference.Reference{})
	}
	if err != nil {
		return fmt.Errorf("--loss: %w", err)
	}
	c.Answers = loss.answers()
	c.Answers.Mismatched = false // they are not records
	return nil
}

// An inspectReport prints the findings for people.
type inspectReport struct {
	*data.Inspection
	m       *model.Model
	ignored []string
}

// A count is a line of the report.
type count struct{ Name, Value string }

// counts returns the figures of the data.
func (r *inspectReport) counts() []count {
	s := r.Stats
	list := []count{{"files", fmt.Sprint(len(r.Files))}}
	if !r.IsText {
		list = append(list, count{"records", fmt.Sprint(s.Examples)})
	}
	if r.Turns > 0 {
		list = append(list, count{"messages", fmt.Sprint(r.Turns)})
	}
	list = append(list, count{"samples", fmt.Sprint(s.Samples)}, count{"tokens", fmt.Sprint(s.Tokens)})
	if s.Tokens > 0 {
		list = append(list, count{"trained", fmt.Sprintf("%d (%.0f %%)", s.Targets, 100*float64(s.Targets)/float64(s.Tokens))})
	}
	what := "repeated records"
	if r.IsText {
		what = "repeated lines"
	}
	for _, c := range []struct {
		what string
		n    int
	}{{"too long and cut", s.Cut}, {"too long and split", s.Split}, {"too long and dropped", s.Dropped}, {"without a trained token", s.Empty}, {what, r.Duplicates}} {
		if c.n > 0 {
			list = append(list, count{c.what, fmt.Sprint(c.n)})
		}
	}
	if len(r.Lengths) > 0 {
		sorted := slices.Sorted(slices.Values(r.Lengths))
		at := func(share float64) int { return sorted[int(share*float64(len(sorted)-1))] }
		list = append(list, count{"tokens per sample", fmt.Sprintf("%d to %d, half of them below %d, 95 %% below %d", sorted[0], sorted[len(sorted)-1], at(0.5)+1, at(0.95)+1)})
	}
	if p := r.Pairs; p != nil {
		list = append(list, count{"trained tokens", fmt.Sprintf("%.1f of a preferred answer, %.1f of another", p.Desirable, p.Undesirable)})
		if p.Pairs > 0 {
			list = append(list, count{"longer chosen answers", fmt.Sprintf("%.0f %%", 100*p.Longer)}, count{"equal beginnings", fmt.Sprintf("%.0f %% of the shorter answer", 100*p.Shared)})
		}
	}
	return list
}

// A bar is an interval of sample lengths.
type bar struct {
	From, To, N int
	Share       float64 // relative to the largest bar
}

// histogram returns the distribution of sample lengths.
func (r *inspectReport) histogram() []bar {
	const most = 12
	counts, width := data.Histogram(r.Lengths, most)
	var bars []bar
	for i, n := range counts {
		if n == 0 && bars == nil {
			continue // no sample is that short
		}
		bars = append(bars, bar{i * width, (i+1)*width - 1, n, float64(n) / float64(slices.Max(counts))})
	}
	return bars
}

// verdict reports whether the data is fit for a run.
func (r *inspectReport) verdict() string {
	ruins := 0
	for _, f := range r.Findings {
		if r.ruins(f) {
			ruins++
		}
	}
	switch ruins {
	case 0:
		return "found nothing that ruins a run"
	case 1:
		return "1 finding ruins a run"
	}
	return fmt.Sprintf("%d findings ruin a run", ruins)
}

func (r *inspectReport) ruins(f data.Finding) bool {
	return f.Ruins && !slices.Contains(r.ignored, f.Name)
}

func (r *inspectReport) writeText(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.counts() {
		fmt.Fprintf(&b, "%-24s %s\n", c.Name, c.Value)
	}
	if bars := r.histogram(); len(bars) > 1 {
		b.WriteString("\ntokens per sample\n")
		for _, bar := range bars {
			fmt.Fprintf(&b, "%6d to %6d  %-40s %d\n", bar.From, bar.To, strings.Repeat("█", int(40*bar.Share+0.5)), bar.N)
		}
	}
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "\n%s:\n%s\n", training.PreviewHeading(fmt.Sprintf("sample %d", s.Number+1), s.Place), training.Preview(r.m.Tokenizer, s.Sample))
	}
	b.WriteString("\n" + r.verdict() + "\n")
	for _, f := range r.Findings {
		mark := " "
		if r.ruins(f) {
			mark = "✗"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", mark, f.Name, training.FindingText(f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *inspectReport) writeJSON(w io.Writer) error {
	type finding struct {
		Name    string `json:"name"`
		Ruins   bool   `json:"ruins"`
		Records int    `json:"records,omitempty"`
		Text    string `json:"text"`
	}
	report := struct {
		Records    int       `json:"records"`
		Messages   int       `json:"messages"`
		Samples    int       `json:"samples"`
		Tokens     int       `json:"tokens"`
		Trained    int       `json:"trained"`
		Cut        int       `json:"cut"`
		Split      int       `json:"split"`
		Dropped    int       `json:"dropped"`
		Duplicates int       `json:"duplicates"`
		Lengths    []int     `json:"lengths"`
		Findings   []finding `json:"findings"`
	}{
		r.Stats.Examples, r.Turns, r.Stats.Samples, r.Stats.Tokens, r.Stats.Targets, r.Stats.Cut, r.Stats.Split, r.Stats.Dropped, r.Duplicates,
		r.Lengths, []finding{},
	}
	for _, f := range r.Findings {
		report.Findings = append(report.Findings, finding{f.Name, r.ruins(f), f.N, training.FindingText(f)})
	}
	return json.NewEncoder(w).Encode(report)
}
