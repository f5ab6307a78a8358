package distill

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/tokenizer"
)

// CheckVocabulary returns an error unless student and teacher have the same vocabulary: each token has the same text
// and the same kind. Their sizes may differ by unused tokens at the end, which pad a vocabulary.
func CheckVocabulary(student, teacher *tokenizer.Tokenizer) error {
	if student == nil || teacher == nil {
		return errors.New("a model has no vocabulary in its file, so the tokens of student and teacher cannot be compared")
	}
	s, t := student.Config(), teacher.Config()
	shared, different, first := min(len(s.Tokens), len(t.Tokens)), 0, -1
	for i := range shared {
		if s.Tokens[i] == t.Tokens[i] && isPadding(s, i) == isPadding(t, i) || isPadding(s, i) || isPadding(t, i) {
			continue
		}
		if different++; first < 0 {
			first = i
		}
	}
	if different > 0 {
		return fmt.Errorf("the teacher has another vocabulary: %s of %d differ, the first is token %d, %q of the student and %q of the teacher; take a teacher with the student's vocabulary",
			counted.Of(different, "token"), shared, first, s.Tokens[first], t.Tokens[first])
	}
	for name, longer := range map[string]tokenizer.Config{"student": s, "teacher": t} {
		for i := shared; i < len(longer.Tokens); i++ {
			if !isPadding(longer, i) {
				return fmt.Errorf("the teacher has another vocabulary: %d tokens, and the student %d; token %d of the %s, %q, is missing in the other; take a teacher with the student's vocabulary",
					len(t.Tokens), len(s.Tokens), i, name, longer.Tokens[i])
			}
		}
	}
	return nil
}

// isPadding reports whether no text has the token.
func isPadding(c tokenizer.Config, id int) bool {
	return id < len(c.Types) && (c.Types[id] == tokenizer.Unused || c.Types[id] == tokenizer.Undefined)
}
