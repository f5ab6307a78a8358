package data

import "github.com/goggml/ggml/llm/tokenizer"

// Words reports of each token that Encode makes of an example whether it is of the words of a message, a text, a prompt
// or a completion, and not of the mark-up around them.
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
