package distill

import (
	"errors"
	"math"

	"github.com/goggml/ggml/llm/tokenizer"
)

// An Alignment relates the vocabularies of a student and of its teacher. A trained token of the student is aligned if a
// token of the teacher begins and ends at the same bytes of the text, with the same bytes: there the teacher's
// probabilities are imitated. They are of the tokens that both vocabularies have. All other tokens of the teacher count
// for the probability of the others, so no probability is made larger. At a token that is not aligned the teacher says
// nothing: all its probabilities are 0, and so are the forward KL divergence, but for 2·10⁻⁵ at most, and its gradient.
// Other divergences are not defined there. An Alignment is safe for concurrent use.
type Alignment struct {
	student, teacher *tokenizer.Tokenizer
	of               []tokenizer.ID // the teacher's token for each of the student, of the same bytes or purpose, or None
	rest             []tokenizer.ID // other tokens of the teacher
}

// NewAlignment returns the alignment of two vocabularies. Tokens of text correspond by their bytes. Special tokens
// correspond by their text, or as beginnings of a text, or as ends of an answer.
func NewAlignment(student, teacher *tokenizer.Tokenizer) (*Alignment, error) {
	if student.NumTokens() == 0 || teacher.NumTokens() == 0 {
		return nil, errors.New("a model has no vocabulary in its file, so the tokens of student and teacher cannot be aligned")
	}
	a := &Alignment{student: student, teacher: teacher, of: make([]tokenizer.ID, student.NumTokens())}
	texts := map[string]tokenizer.ID{} // of the teacher, by bytes
	for id := range tokenizer.ID(teacher.NumTokens()) {
		if text, is := textOf(teacher, id); is {
			if _, has := texts[text]; !has || !isByte(teacher, id) {
				texts[text] = id
			}
		}
	}
	for i := range a.of {
		a.of[i] = tokenizer.None
	}
	taken := make([]bool, teacher.NumTokens())
	take := func(id, of tokenizer.ID) {
		if of != tokenizer.None && !taken[of] {
			a.of[id], taken[of] = of, true
		}
	}
	for _, bytes := range []bool{false, true} { // a token of a character comes before a token of a byte with the same text
		for id := range tokenizer.ID(student.NumTokens()) {
			if text, is := textOf(student, id); is && isByte(student, id) == bytes {
				if of, has := texts[text]; has {
					take(id, of)
				}
			}
		}
	}
	for _, id := range []tokenizer.ID{student.EOT(), student.EOS()} { // an end of an answer may be a beginning, too
		if id != tokenizer.None && a.of[id] == tokenizer.None {
			take(id, a.special(id))
		}
	}
	for id := range tokenizer.ID(student.NumTokens()) {
		if _, is := textOf(student, id); !is && a.of[id] == tokenizer.None {
			take(id, a.special(id))
		}
	}
	for id, is := range taken {
		if !is {
			a.rest = append(a.rest, tokenizer.ID(id))
		}
	}
	return a, nil
}

// check reports an alignment that was not made.
func (a *Alignment) check() error {
	if a == nil || a.student == nil {
		return errors.New("the alignment is nil or a zero value; NewAlignment makes one")
	}
	return nil
}

// textOf returns the bytes of a token of text.
func textOf(t *tokenizer.Tokenizer, id tokenizer.ID) (text string, is bool) {
	text = string(t.Piece(id))
	return text, text != "" && !t.IsSpecial(id) && !t.IsEOG(id) && id != t.BOS()
}

// isByte reports whether a token is written as the number of a byte.
func isByte(t *tokenizer.Tokenizer, id tokenizer.ID) bool {
	text := t.TokenText(id)
	return len(text) == len("<0x00>") && text[:3] == "<0x" && len(t.Piece(id)) == 1
}

// special returns the teacher's token for a special one of the student, or None.
func (a *Alignment) special(id tokenizer.ID) tokenizer.ID {
	of, has := a.teacher.TokenID(a.student.TokenText(id))
	if _, isText := textOf(a.teacher, of); has && !isText {
		return of
	}
	switch {
	case id == a.student.EOT() && a.teacher.EOT() != tokenizer.None:
		return a.teacher.EOT()
	case id == a.student.EOT(), id == a.student.EOS():
		return a.teacher.EOS()
	case id == a.student.BOS():
		return a.teacher.BOS()
	}
	return tokenizer.None
}

// counterpart returns the teacher's token for one of the student, or None, as for tokens that pad a vocabulary.
func (a *Alignment) counterpart(id tokenizer.ID) tokenizer.ID {
	if id < 0 || int(id) >= len(a.of) {
		return tokenizer.None
	}
	return a.of[id]
}

// impossible is the logit of a token with probability 0.
var impossible = float32(math.Inf(-1))

// reorder returns the teacher's logits in the order of the student's vocabulary, and then the logits of the teacher's other
// tokens. Tokens that the teacher lacks are impossible.
func (a *Alignment) reorder(logits []float32, vocab int) []float32 {
	row := make([]float32, 0, vocab+len(a.rest))
	for id := range vocab {
		z := impossible
		if of := a.counterpart(tokenizer.ID(id)); of != tokenizer.None {
			z = logits[of]
		}
		row = append(row, z)
	}
	for _, id := range a.rest {
		row = append(row, logits[id])
	}
	return append(row, logits[a.teacher.NumTokens():]...) // which pad its vocabulary
}
