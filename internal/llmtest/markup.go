package llmtest

import (
	"regexp"
	"slices"
)

var markupToken = regexp.MustCompile(`<\|[^<>|\n]+\|>|<｜[^<>\n]+｜>|\[/?[A-Z_]+\]|<(?:start|end)_of_turn>|\[\|[a-z]+\|\]|</?think>`)

// MarkupTokens are the special tokens that a chat template writes, behind others.
func MarkupTokens(template string, others ...string) []string {
	tokens := slices.Clone(others)
	for _, token := range markupToken.FindAllString(template, -1) {
		if !slices.Contains(tokens, token) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}
