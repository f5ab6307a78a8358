package data

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ModelTemplate parses the chat template in a model's vocabulary. Errors begin with name, the model's
// file. A missing template is an *Error.
func ModelTemplate(name string, t *tokenizer.Tokenizer) (*chat.Template, error) {
	source := t.ChatTemplate()
	if source == "" {
		return nil, &Error{File: name, Kind: TemplateFailed, Reason: "the model has no chat template (" + tokenizer.ChatTemplateKey + ")", Remedy: "give one in a file"}
	}
	return chat.Parse(name, source)
}

// RenderOptions returns a template's options for a vocabulary: the variables bos_token, eos_token,
// unk_token and pad_token, if the vocabulary has these tokens, additional variables, which take
// precedence, and the tokens that end a turn. A nil vocabulary has none of these tokens.
func RenderOptions(t *tokenizer.Tokenizer, variables map[string]any) chat.Options {
	o := chat.Options{Variables: map[string]any{}}
	if t.NumTokens() == 0 {
		maps.Copy(o.Variables, variables)
		return o
	}
	for name, id := range map[string]tokenizer.ID{"bos_token": t.BOS(), "eos_token": t.EOS(), "unk_token": t.Unknown(), "pad_token": t.Padding()} {
		if id != tokenizer.None {
			o.Variables[name] = t.TokenText(id)
		}
	}
	maps.Copy(o.Variables, variables)
	for id := range tokenizer.ID(t.NumTokens()) {
		if t.IsEOG(id) {
			o.EndOfTurn = append(o.EndOfTurn, cmp.Or(string(t.Piece(id)), t.TokenText(id)))
		}
	}
	return o
}

// EncodeRendered tokenizes a rendered conversation, in training as in generation: special tokens only
// in mark-up, and BOS in front, once, if the model wants it or the template writes it.
func EncodeRendered(t *tokenizer.Tokenizer, r *chat.Rendered) []int32 {
	if t.NumTokens() == 0 || r == nil {
		return nil
	}
	ids, _ := encodeWithBOS(t, segmentsOf(r))
	return ids
}

func segmentsOf(r *chat.Rendered) []tokenizer.Segment {
	var segments []tokenizer.Segment
	for _, c := range r.Chunks() {
		segments = append(segments, tokenizer.Segment{Text: r.Text[c.From:c.To], ParseSpecial: c.Markup})
	}
	return segments
}

// encodeWithBOS adds BOS in front if the model wants it and the text has none. Such a BOS has no
// bytes.
func encodeWithBOS(t *tokenizer.Tokenizer, segments []tokenizer.Segment) (ids []int32, ends []int) {
	ids, ends = t.EncodeSegments(segments, tokenizer.EncodeOptions{})
	if t.AddsBOS() && (len(ids) == 0 || ids[0] != t.BOS()) {
		return slices.Insert(ids, 0, t.BOS()), slices.Insert(ends, 0, 0)
	}
	return ids, ends
}
