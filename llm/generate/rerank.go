package generate

import (
	"context"
	"fmt"
	"strings"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Rerank scores how well each document answers a query, in a session of a reranker: larger is better. If the model has
// several scores, it returns the first. Scores are not scaled: for most rerankers they are logits of a probability.
// [infer.Session.Score] returns all scores, for tokens.
//
// The model's file says how query and document are joined: by a template (tokenizer.chat_template.rerank), or one after the
// other with the vocabulary's separators. Special tokens written in them are read as plain text.
func Rerank(ctx context.Context, m *model.Model, s *infer.Session, query string, documents []string) ([]float32, error) {
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	if err := checkSession(m, s); err != nil {
		return nil, err
	}
	tokens, err := pairs(m, query, documents)
	if err != nil {
		return nil, err
	}
	return firstScores(s.Score(ctx, tokens))
}

// pairs encodes a query with each document.
func pairs(m *model.Model, query string, documents []string) ([][]int32, error) {
	tokens := make([][]int32, len(documents))
	for i, document := range documents {
		if tokens[i] = pair(m.Tokenizer, query, document); len(tokens[i]) == 0 {
			return nil, fmt.Errorf("the query and text %d are empty, and the model has no token that begins a text", i+1)
		}
	}
	return tokens, nil
}

// firstScores returns the first score of each text.
func firstScores(all [][]float32, err error) ([]float32, error) {
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(all))
	for i, x := range all {
		scores[i] = x[0]
	}
	return scores, nil
}

// pair encodes a query and a document as the reranker expects them.
func pair(tok *tokenizer.Tokenizer, query, document string) []int32 {
	if template := tok.Config().RerankTemplate; template != "" {
		ids, _ := tok.EncodeSegments(filled(template, query, document), tokenizer.EncodeOptions{AddSpecial: true})
		return ids
	}
	first := tok.Encode(query, tokenizer.EncodeOptions{})
	if tok.AddsBOS() {
		first = append([]int32{tok.BOS()}, first...)
	}
	if tok.AddsEOS() {
		first = append(first, tok.EOS())
	}
	if tok.Config().AddSeparator && tok.Separator() != tokenizer.None {
		first = append(first, tok.Separator())
	}
	second := tok.Encode(document, tokenizer.EncodeOptions{AddSpecial: true})
	if tok.AddsBOS() && len(second) > 0 && second[0] == tok.BOS() {
		second = second[1:]
	}
	return append(first, second...)
}

// filled fills a template. Special tokens are read only in the template's own parts.
func filled(template, query, document string) []tokenizer.Segment {
	var list []tokenizer.Segment
	for template != "" {
		text, name, found := cutFirst(template, "{query}", "{document}")
		list = append(list, tokenizer.Segment{Text: text, ParseSpecial: true})
		if !found {
			break
		}
		template = template[len(text)+len(name):]
		if name == "{query}" {
			list = append(list, tokenizer.Segment{Text: query})
		} else {
			list = append(list, tokenizer.Segment{Text: document})
		}
	}
	return list
}

// cutFirst finds the first of several names in a text, and returns the text before it and the name.
func cutFirst(text string, names ...string) (before, name string, found bool) {
	at := len(text)
	for _, n := range names {
		if i := strings.Index(text, n); i >= 0 && i < at {
			at, name, found = i, n, true
		}
	}
	return text[:at], name, found
}
