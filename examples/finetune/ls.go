package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/runs"
)

// lsCommand lists runs.
type lsCommand struct {
	Folder string `arg:"" optional:"" name:"folder" default:"." help:"Where to look for runs: in this folder and two below it; by default the working directory."`
	JSON   bool   `name:"json" help:"Write a line of JSON for each run instead of a table."`
}

// Run lists.
func (c *lsCommand) Run(_ context.Context, out io.Writer) error {
	list, fault := runs.List(c.Folder)
	if len(list) == 0 && fault == nil {
		fmt.Fprintf(os.Stderr, "there is no run in %s or the folders below it; finetune --run-dir creates one\n", c.Folder)
	}
	var summaries []runs.Summary
	for _, r := range list {
		s := r.Summary()
		if s.Broken > 0 {
			fmt.Fprintf(os.Stderr, "%s: %s cannot be read\n", r.MetricsPath(), cli.Count(s.Broken, "line"))
		}
		summaries = append(summaries, s)
	}
	if err := c.print(out, summaries); err != nil {
		return err
	}
	return fault
}

func (c *lsCommand) print(out io.Writer, list []runs.Summary) error {
	if c.JSON {
		return cli.WriteLines(out, list)
	}
	if len(list) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\tmodel\tdata\tsteps\tstate\tbest loss\tstart (UTC)\tresult")
	for _, s := range list {
		var data []string
		for _, path := range s.Data {
			data = append(data, filepath.Base(path))
		}
		adapter := "none yet"
		if s.Adapter != "" {
			adapter = filepath.Base(s.Adapter)
		}
		model := "–" // a run that creates a model
		if s.Model != "" {
			model = filepath.Base(s.Model)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", s.Run, model, strings.Join(data, ", "),
			s.Step, s.Steps, s.Status, s.BestText(), cmp.Or(s.Time, "–"), adapter)
	}
	return table.Flush()
}
