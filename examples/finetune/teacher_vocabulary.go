package main

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/model"
)

// prepare reports what makes the teacher useless for the student or for the samples. It is closed again.
func (t *teacher) prepare(ctx context.Context, sets *training.Sets, list []*data.Dataset) error {
	defer t.unload()
	if err := t.load(model.LoadOptions{}); err != nil {
		return err
	}
	if err := t.compareVocabulary(ctx, sets); err != nil {
		return err
	}
	if err := t.measureAlignment(list); err != nil {
		return err
	}
	return t.checkLength()
}

// checkLength reports samples that are too long for the teacher.
func (t *teacher) checkLength() error {
	n := t.model.Config().Context
	if t.longest <= n {
		return nil
	}
	fits := n
	if t.alignment != nil {
		fits = t.p.Ctx * n / t.longest
	}
	return fmt.Errorf("--teacher %s: a sample has %s of the teacher, which was trained on %d; shorten the samples with --ctx %d", t.named(t.path), cli.Count(t.longest, "token"), n, fits)
}

// compareVocabulary aligns the teacher's vocabulary with the student's if it is another one.
func (t *teacher) compareVocabulary(ctx context.Context, sets *training.Sets) error {
	differs := distill.CheckVocabulary(t.student.Tokenizer, t.model.Tokenizer)
	switch {
	case differs == nil:
		return nil
	case t.p.OnPolicy > 0:
		return fmt.Errorf("--teacher %s: --on-policy needs the vocabulary of the student: %w", t.named(t.path), differs)
	case t.p.TeacherBeta > 0:
		return fmt.Errorf("--teacher %s: --teacher-beta needs the vocabulary of the student: %w, or leave --teacher-beta out", t.named(t.path), differs)
	}
	var err error
	if t.alignment, err = distill.NewAlignment(t.student.Tokenizer, t.model.Tokenizer); err != nil {
		return fmt.Errorf("--teacher %s: %w", t.named(t.path), err)
	}
	if !sets.IsChat || t.model.Tokenizer.ChatTemplate() == "" {
		return nil
	}
	if t.own, err = t.p.Counterparts(ctx, source(t.model), sets); err != nil {
		return fmt.Errorf("--teacher %s: %w", t.named(t.path), err)
	}
	return nil
}

// scorerOptions are the settings of the teacher's scores.
func (t *teacher) scorerOptions() distill.ScorerOptions {
	o := distill.ScorerOptions{TopK: t.p.TopK, Temperature: t.p.Temperature, Vocab: t.student.Config().Vocab, Alignment: t.alignment}
	if t.own != nil {
		o.Own = t.own.Of
	}
	return o
}

// measureAlignment says how much of the samples the teacher's vocabulary has, and sets the length of its session.
func (t *teacher) measureAlignment(list []*data.Dataset) error {
	if t.alignment == nil {
		return nil
	}
	o := t.scoresOptions()
	n, err := o.Measure(list...)
	if err != nil {
		return err
	}
	reads := "the text that the student reads"
	if t.own != nil {
		reads = "conversations in its own template"
	}
	fmt.Fprintf(t.p.Log(), "teacher: %s has another vocabulary, and reads %s: it scores %.1f %% of %d trained tokens, which match its own\n",
		t.who(), reads, 100*n.Share(), n.Trained)
	if n.Aligned == 0 {
		return fmt.Errorf("--teacher %s: no trained token matches one of the teacher's vocabulary; take a teacher with the student's vocabulary", t.named(t.path))
	}
	t.longest, t.aligned = n.Longest, n.Share()
	return nil
}
