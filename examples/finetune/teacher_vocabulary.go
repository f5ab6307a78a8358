package main

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/layout"
)

// compareVocabulary opens the teacher's file, and aligns its vocabulary with the student's if it is another one.
func (t *teacher) compareVocabulary(ctx context.Context, sets *training.Sets) error {
	if err := t.load(layout.Layout{}); err != nil {
		return err
	}
	differs := distill.CheckVocabulary(t.student.Tokenizer, t.model.Tokenizer)
	switch {
	case differs == nil:
		return nil
	case t.p.OnPolicy > 0:
		return fmt.Errorf("--teacher %s: --on-policy needs the vocabulary of the student: %w", t.path, differs)
	case t.p.TeacherBeta > 0:
		return fmt.Errorf("--teacher %s: --teacher-beta needs the vocabulary of the student: %w, or leave --teacher-beta out", t.path, differs)
	}
	var err error
	if t.alignment, err = distill.NewAlignment(t.student.Tokenizer, t.model.Tokenizer); err != nil {
		return fmt.Errorf("--teacher %s: %w", t.path, err)
	}
	if !sets.IsChat || t.model.Tokenizer.ChatTemplate() == "" {
		return nil
	}
	t.own, err = t.p.Counterparts(ctx, source(t.model), sets)
	return err
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
func (t *teacher) measureAlignment(o *distill.Options, list []*data.Dataset) error {
	if t.alignment == nil {
		return nil
	}
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
		return fmt.Errorf("--teacher %s: no trained token matches one of the teacher's vocabulary; take a teacher with the student's vocabulary", t.path)
	}
	t.longest = n.Longest
	return nil
}
