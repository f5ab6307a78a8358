package generate

import (
	"context"
	"fmt"
	"strings"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Rerank scores how well documents answer a query, in a session of a reranker: a score for each, larger for a better one, and
// the first of several. It is not scaled: most rerankers mean the logit of a probability. [infer.Session.Score] has all scores
// of tokens.
//
// The model sees query and document as its file says: by a template (tokenizer.chat_template.rerank), or one after the other,
// with the tokens between them that the vocabulary has for that. Texts of special tokens in them stay texts.
func Rerank(ctx context.Context, m *model.Model, s *infer.Session, query string, documents []string) ([]float32, error) {
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	if err := checkSession(m, s); err != nil {
		return nil, err
	}
	tokens := make([][]int32, len(documents))
	for i, document := range documents {
		if tokens[i] = pair(m.Tokenizer, query, document); len(tokens[i]) == 0 {
			return nil, fmt.Errorf("the query and text %d are empty, and the model has no token that begins a text", i+1)
		}
	}
	all, err := s.Score(ctx, tokens)
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(all))
	for i, x := range all {
		scores[i] = x[0]
	}
	return scores, nil
}

// pair is what a reranker sees of a query and a document.
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

// filled are the parts of a template, of which query and document are no mark-up.
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

// cutFirst returns what lies before the first of several names, and that name.
func cutFirst(text string, names ...string) (before, name string, found bool) {
	at := len(text)
	for _, n := range names {
		if i := strings.Index(text, n); i >= 0 && i < at {
			at, name, found = i, n, true
		}
	}
	return text[:at], name, found
}
