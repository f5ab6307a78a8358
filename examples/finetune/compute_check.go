package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/train"
)

// checkCompute compares the gradients of the first step in the compute type with F32's. It writes no files, and uses
// the checkpoint of a run that has begun.
func (p *trainCommand) checkCompute(ctx context.Context, out io.Writer) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.OnlyWrite {
		return errors.New("--only-write-lora computes no gradients, so there is nothing to compare; leave it out")
	}
	if err := p.Prepare(p.Log()); err != nil {
		return err
	}
	if _, err := p.lookIntoFolder(); err != nil {
		return err
	}
	devices, err := p.Choose(nil)
	if err != nil {
		return err
	}
	s, err := p.open(layout.Layout{})
	if err != nil {
		return err
	}
	defer func() { s.Close() }()
	sets, err := p.loadToFit(ctx, devices, s)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	defer sets.Close()
	options, err := p.options(sets.Train)
	if err != nil {
		return err
	}
	if s, err = p.spread(devices, s, sets, options); err != nil {
		return err
	}
	e, err := device.New(device.Options{Layout: s.model.Layout(), Threads: p.ThreadCount()})
	if err != nil {
		return err
	}
	defer e.Close()
	options.Engine = e
	if options.ComputeType, err = p.computeType(e); err != nil {
		return err
	}
	t, err := p.NewTrainer(s.model, train.Trainables{Adapters: s.adapter.WithScale(1)}, sets.Train, options)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.Resume(ctx, p.Log(), t, p.flags); err != nil {
		return err
	}
	check, err := t.CheckCompute(ctx)
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	return printCheck(out, options.ComputeType.String(), check)
}

func printCheck(out io.Writer, compute string, check *train.ComputeCheck) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "gradient\tcosine of %s with f32\n", compute)
	for _, g := range check.Parameters {
		fmt.Fprintf(w, "%s\t%.6f\n", g.Name, g.Cosine)
	}
	fmt.Fprintf(w, "all\t%.6f\n", check.Cosine)
	fmt.Fprintf(w, "loss\t%.6f, in f32 %.6f\n", check.Loss, check.LossF32)
	return w.Flush()
}
