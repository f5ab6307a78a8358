package chat

import "slices"

// Range is a chunk of text that is trained, Text[From:To], with its weight.
type Range struct {
	From, To int     // bytes of the text
	Weight   float64 // of its tokens in the loss; above 0
}

type byteRange struct{ from, to int }

// Trained gives the bytes that a mode trains, in order. Messages of weight 0 have none.
//
// The assistant writes all that is not in its prompt. With {% generation %} in the template, it is the text between
// these tags. Otherwise a turn of the assistant is the text of its message with the mark-up around it, and
//
//   - it is trained from the end of its header: as much of the mark-up before its first word as the generation prompt
//     has too. If the template has no generation prompt, the header is the mark-up that it puts before every answer;
//     if that is white space or nothing, it is trained, because no prompt ends with it;
//   - it is trained up to the first text of a token that ends turns (eos_token, Options.EndOfTurn) behind its last
//     word; if there is none, up to the last mark-up of the turn that is no white space; and with the
//     token that the template puts behind a last answer, if it follows the turn instead of ending it. Where the template
//     puts another one behind answers that others follow, which ends no turn, that is not trained: the model never
//     writes it (<|end|> of gpt-oss, for <|return|>).
//
// A byte of another message, of tools or of documents is never in it.
func (r *Rendered) Trained(mode Mode) []Range {
	if r.template == nil { // nobody has rendered it
		return nil
	}
	if mode == All {
		return r.weighted(r.withEmptyReasoning([]byteRange{{0, len(r.Text)}}, 0))
	}
	messages := r.conversation.Messages
	first := len(messages) // the first message that is trained
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

// weighted gives ranges the weights of the messages that they are of.
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

// turns are the trained bytes of the assistant's messages from a first one on.
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

// tagged are the bytes of generation tags that are of messages from a first one on.
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
