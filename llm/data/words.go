package data

import "github.com/goggml/ggml/llm/tokenizer"

// Words reports, for each token of an encoded example, whether it is part of the words of a message,
// text, prompt or completion, rather than of the mark-up around them.
func (e *Encoder) Words(x Example) ([]bool, error) {
	if err := e.checkMade(); err != nil {
		return nil, err
	}
	segments := []tokenizer.Segment{{Text: x.Text, ParseSpecial: true}}
	var words func(from, to int) bool
	switch {
	case e.isChat(x):
		r, err := e.Render(x)
		if err != nil {
			return nil, err
		}
		segments, _ = closed(r, nil)
		words = func(from, to int) bool { return !r.IsMarkup(from, to) }
	case x.Format != Text:
		own := x.Format == Completion
		segments = []tokenizer.Segment{{Text: x.Prompt, ParseSpecial: own}, {Text: x.Completion, ParseSpecial: own}}
	}
	ids, ends := encodeWithBOS(e.t, segments)
	list, from := make([]bool, len(ids)), 0
	for i, end := range ends {
		list[i] = end > from && (words == nil || words(from, end)) && !e.t.IsSpecial(ids[i])
		from = end
	}
	return list, nil
}
