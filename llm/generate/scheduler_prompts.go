package generate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/infer"
)

// prefill computes a chunk of the prompts in one pass, and draws the first tokens after those that are complete.
func (s *Scheduler) prefill() {
	s.prompts = slices.DeleteFunc(s.prompts, func(t *text) bool {
		if err := context.Cause(t.ctx); err != nil {
			s.failPrompt(t, err)
		}
		return t.g.ended
	})
	chunk := s.choose(s.chunkSize(len(s.prompts)))
	if len(chunk) == 0 {
		return
	}
	ctx, next := s.ctx, make([]infer.StepInput, len(chunk))
	if len(chunk) == 1 {
		ctx = chunk[0].ctx
	}
	for i, t := range chunk {
		next[i] = t.input()
	}
	err := s.session.Step(ctx, next)
	var complete []*generation
	for _, t := range chunk {
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

// choose returns the prompts of which a pass computes the next tokens, n in all with padding to the longest piece. A prompt that
// begins as another of them does waits for its states.
func (s *Scheduler) choose(n int) (chunk []*text) {
	order := slices.Clone(s.prompts)
	if s.shortest = !s.shortest; s.shortest {
		slices.SortStableFunc(order, func(a, b *text) int { return cmp.Compare(a.left(), b.left()) })
	}
	longest := 0
	for _, t := range order {
		if slices.ContainsFunc(chunk, t.waitsFor) {
			continue
		}
		if len(chunk) > 0 && (len(chunk)+1)*max(longest, t.left()) > n {
			continue
		}
		if err := t.reuse(); err != nil {
			s.failPrompt(t, err)
			continue
		}
		t.piece = min(t.left(), n)
		chunk, longest = append(chunk, t), max(longest, t.piece)
	}
	return chunk
}
