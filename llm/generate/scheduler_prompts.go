package generate

import (
	"context"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/infer"
)

// prefill computes chunks of prompts in one pass, and draws the first tokens after those that are complete.
func (s *Scheduler) prefill() {
	s.prompts = slices.DeleteFunc(s.prompts, func(t *text) bool {
		if err := context.Cause(t.ctx); err != nil {
			s.failPrompt(t, err)
		}
		return t.g.ended
	})
	chosen := s.choose(s.chunkSize(len(s.prompts)))
	if len(chosen) == 0 {
		return
	}
	ctx, next := s.ctx, make([]infer.StepInput, len(chosen))
	if len(chosen) == 1 {
		ctx = chosen[0].ctx
	}
	for i, t := range chosen {
		next[i] = t.input()
	}
	err := s.session.Step(ctx, next)
	var complete []*generation
	for _, t := range chosen {
		switch {
		case err != nil:
			s.failPrompt(t, err)
		case t.left() == 0:
			t.g.start(t.sequence, t.logits, t.tokens, t.began)
			complete = append(complete, t.g)
			s.texts = append(s.texts, t)
		}
	}
	s.prompts = slices.DeleteFunc(s.prompts, func(t *text) bool { return t.g.ended || t.left() == 0 })
	if len(complete) > 0 {
		drawAll(complete)
		s.texts = s.unfinished(s.texts, func(*generation) {})
	}
}

func (s *Scheduler) failPrompt(t *text, err error) {
	t.g.end("", fmt.Errorf("the prompt: %w", err))
	s.finish(t)
}

// order returns the prompts in the order of their arrival, which is usually the order of their slots too. Every other time,
// prompts with a rest of less than half of the first one's come first.
func (s *Scheduler) order() []*text {
	if s.shorter = !s.shorter; !s.shorter || len(s.prompts) == 0 {
		return s.prompts
	}
	var short, others []*text
	for _, t := range s.prompts {
		if 2*t.left() < s.prompts[0].left() {
			short = append(short, t)
		} else {
			others = append(others, t)
		}
	}
	return append(short, others...)
}

// choose returns the prompts whose next tokens a pass computes, n in all with padding to the longest chunk. A prompt that
// begins as another of them does waits for its states.
func (s *Scheduler) choose(n int) (chosen []*text) {
	longest := 0
	for _, t := range s.order() {
		if slices.ContainsFunc(chosen, t.waitsFor) {
			continue
		}
		if len(chosen) > 0 && (len(chosen)+1)*max(longest, t.left()) > n {
			break
		}
		if err := t.reuse(); err != nil {
			s.failPrompt(t, err)
			continue
		}
		t.chunk = min(t.left(), n)
		chosen, longest = append(chosen, t), max(longest, t.chunk)
	}
	return chosen
}
