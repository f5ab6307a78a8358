package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/train"
)

// checkCompute compares the gradients of the first step in the compute type with F32's. It writes no files, and uses
// the checkpoint of a run that has begun.
func (p *trainCommand) checkCompute(ctx context.Context, out io.Writer) error {
	r, err := p.rehearse(ctx, "computes no gradients, so there is nothing to compare")
	if err != nil {
		return err
	}
	defer r.Close()
	if err := p.teach(ctx, r.devices, r.subject.model, r.sets); err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	defer p.teachers.close()
	options := r.options
	if r.subject, err = p.spread(r.devices, r.subject, r.sets, options); err != nil {
		return err
	}
	e, err := p.openEngine(ctx, r.subject.model, &options)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := p.answerItself(r.subject, e, r.sets.Train); err != nil {
		return err
	}
	if options.Loss, err = p.loss(ctx, e, r.subject.model, r.sets, options.ComputeType); err != nil {
		return cli.Interrupted(ctx, err, "nothing is lost")
	}
	t, err := p.NewTrainer(r.subject.model, train.Trainables{Adapters: r.subject.adapter.WithScale(1)}, r.sets.Train, options)
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
	return printCheck(out, computeTypeName(options.ComputeType), check)
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
