package chat

import "slices"

// Range is a trained part of the text, Text[From:To], and its weight.
type Range struct {
	From, To int     // bytes of the text
	Weight   float64 // of its tokens in the loss, > 0
}

type byteRange struct{ from, to int }

// Trained returns the bytes that a mode trains, in order. Messages of weight 0 have none.
//
// The assistant writes everything after its prompt. If the template contains {% generation %}, that is the text between
// these tags. Otherwise a turn of the assistant is its message's text with the surrounding mark-up.
//
//   - Training starts at the end of the turn's header: the mark-up before the first word, as far as the generation prompt
//     contains it. Without a generation prompt, the header is the mark-up before every answer; if that is empty or
//     white space, it is trained, because no prompt ends with it.
//   - Training ends after the first token that ends turns (eos_token, Options.EndOfTurn) behind the last word. Without
//     such a token, it ends after the turn's last mark-up that is not white space. The token that the template puts after
//     a final answer is included even if it follows the turn. If the template puts another token after answers that
//     others follow, and that token does not end turns, it is masked: the model never writes it (gpt-oss writes
//     <|return|> and never <|end|>).
//
// Bytes of other messages, tools and documents are never trained.
func (r *Rendered) Trained(mode Mode) []Range {
	if r.template == nil { // not rendered by a template
		return nil
	}
	if mode == All {
		return r.weighted(r.withEmptyReasoning([]byteRange{{0, len(r.Text)}}, 0))
	}
	messages := r.conversation.Messages
	first := len(messages) // index of the first trained message
	switch mode {
	case Assistant:
		first = 0
	case Last:
		for i, m := range messages {
			if m.isAssistant() {
				first = i
			}
		}
	case Completion:
		first = 0
		for i, m := range messages {
			if !m.isAssistant() {
				first = i + 1
			}
		}
	}
	turns := r.withEmptyReasoning(r.turns(first), first)
	if mode == Completion && len(turns) > 0 {
		last := &turns[len(turns)-1]
		last.to = max(last.to, len(r.Text)-len(r.trailingPrompt()))
	}
	return r.weighted(turns)
}

// weighted assigns each range the weight of its message.
func (r *Rendered) weighted(ranges []byteRange) []Range {
	var out []Range
	for _, chunk := range ranges {
		for _, span := range r.Spans[r.spanAt(chunk.from):] {
			from, to := max(chunk.from, span.From), min(chunk.to, span.To)
			if from >= to {
				break
			}
			weight := 1.0
			if span.Message >= 0 {
				weight = r.conversation.Messages[span.Message].Weight
			}
			if weight == 0 {
				continue
			}
			if n := len(out); n > 0 && out[n-1].To == from && out[n-1].Weight == weight {
				out[n-1].To = to
				continue
			}
			out = append(out, Range{from, to, weight})
		}
	}
	return out
}

// turns returns the trained bytes of the assistant's turns in messages[first:].
func (r *Rendered) turns(first int) []byteRange {
	if r.template.HasGenerationTag() {
		return r.tagged(first)
	}
	var turns []byteRange
	var marks *turnMarkup
	chunks := r.chunks()
	for i := first; i < len(r.conversation.Messages); i++ {
		if !r.conversation.Messages[i].isAssistant() {
			continue
		}
		if marks == nil {
			marks = r.turnMarkup()
		}
		turns = append(turns, r.turn(i, chunks[i], marks)...)
	}
	slices.SortFunc(turns, func(a, b byteRange) int { return a.from - b.from })
	return turns
}

// tagged returns the bytes inside generation tags that belong to messages[first:].
func (r *Rendered) tagged(first int) []byteRange {
	var out []byteRange
	for _, g := range r.generated {
		message := -1
		for _, span := range r.Spans[r.spanAt(g.from):] {
			if span.From >= g.to {
				break
			}
			if span.Message >= 0 {
				message = span.Message
				break
			}
		}
		if g.from < g.to && (message >= first || first == 0) {
			out = append(out, g)
		}
	}
	return out
}
