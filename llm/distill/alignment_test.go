package distill_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// vocabularyOf returns a vocabulary of the letters a to e and the space, merged in pairs, with special tokens.
func vocabularyOf(t testing.TB, end string, merges ...string) *tokenizer.Tokenizer {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBPE, "gpt-2"))(t)
	c.Tokens = []string{end, "<s>", "<u>", "<a>"}
	c.Types = []tokenizer.TokenType{tokenizer.Control, tokenizer.Control, tokenizer.Control, tokenizer.Control}
	for _, text := range append(strings.Split("abcdeĠ", ""), merges...) {
		c.Tokens, c.Types = append(c.Tokens, strings.ReplaceAll(text, " ", "")), append(c.Types, tokenizer.Normal)
	}
	c.Merges, c.EOS, c.BOS, c.AddBOS = merges, 0, 1, false
	return need.Value(tokenizer.New(c))(t)
}

// boundaries returns the bytes at which tokens begin and end, in a text with one byte for a special token.
func boundaries(v *tokenizer.Tokenizer, ids []int32) (ends []int) {
	at := 0
	for _, id := range ids {
		if at++; !v.IsSpecial(id) {
			at += len(v.Piece(id)) - 1
		}
		ends = append(ends, at)
	}
	return ends
}

// randomText returns letters and spaces; the first is a letter.
func randomText(rng *rand.Rand, least int) string {
	text := []byte{"abcde"[rng.IntN(5)]}
	for range least + rng.IntN(16) {
		text = append(text, "abcde "[rng.IntN(6)])
	}
	return string(append(text, 'e'))
}

// randomMerges returns merges of letters and of earlier merges.
func randomMerges(rng *rand.Rand) (list []string) {
	pieces := strings.Split("abcdeĠ", "")
	for len(list) < 8 {
		a, b := pieces[rng.IntN(len(pieces))], pieces[rng.IntN(5)]
		if !slices.Contains(pieces, a+b) {
			list, pieces = append(list, a+" "+b), append(pieces, a+b)
		}
	}
	return list
}

// A token that begins and ends at the same bytes for both has the teacher's probabilities of the tokens that both have;
// all others count as one. Of any other token nothing is said. A search over all pairs of tokens says which.
func TestAlignment(t *testing.T) {
	student, teacher := vocabularyOf(t, "</s>", "a b", "c d", "Ġ a", "Ġa b"), vocabularyOf(t, "<|end|>", "d e", "Ġ a", "a b", "b c")
	counterpart := func(id int32) (of int32) {
		if student.IsSpecial(id) {
			return id // both have their end first
		}
		return int32(slices.IndexFunc(teacher.Config().Tokens, func(text string) bool { return text == student.TokenText(id) }))
	}
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32) // its further logits are of no token
	a := need.Value(distill.NewAlignment(student, teacher))(t)
	const k = 4
	of := scorer(t, m, distill.ScorerOptions{TopK: k, Alignment: a})
	rng, total := rand.New(rand.NewPCG(1, 2)), distill.Aligned{}
	var samples []data.Sample
	for range 60 {
		text := randomText(rng, 0)
		x := data.Sample{Tokens: append(student.Encode(text, tokenizer.EncodeOptions{}), student.EOS())}
		samples = append(samples, x)
		ids := append(teacher.Encode(text, tokenizer.EncodeOptions{}), teacher.EOS())
		own, theirs := boundaries(student, x.Tokens), boundaries(teacher, ids)
		got := need.Value(of.Score(context.Background(), x))(t)
		logits := llmtest.ExactLogits(t, m, nil, ids, len(ids))
		for i, at := range train.TrainedTokens(x) {
			tokens, probs := got.Tokens[i*k:(i+1)*k], got.Probs[i*(k+1):(i+1)*(k+1)]
			total.Trained++
			j := -1
			for b := 1; b < len(ids); b++ {
				if theirs[b-1] == own[at] && theirs[b] == own[at+1] {
					j = b
				}
			}
			if j < 0 {
				require.Equal(t, []int32{0, 1, 2, 3}, tokens)
				require.Equal(t, make([]float32, k+1), probs)
				continue
			}
			total.Aligned, total.Longest = total.Aligned+1, max(total.Longest, j)
			require.Equal(t, counterpart(x.Tokens[at+1]), ids[j], "the tokens have the same bytes")
			row := refmath.From(logits[j-1])
			lse, rest := refmath.LogSumExp(row.Data), 1.0
			var want []float64
			for id := range int32(student.NumTokens()) {
				if c := counterpart(id); c >= 0 {
					want = append(want, math.Exp(row.Data[c]-lse))
				}
			}
			slices.SortFunc(want, func(x, y float64) int { return int(math.Copysign(1, y-x)) })
			for j, id := range tokens {
				p := math.Exp(row.Data[counterpart(id)] - lse)
				require.InDelta(t, want[j], p, 1e-4)
				require.InDelta(t, p, probs[j], 1e-5)
				rest -= p
			}
			require.InDelta(t, rest, probs[k], 1e-5)
		}
	}
	require.Equal(t, total, need.Value((&distill.Options{ScorerOptions: distill.ScorerOptions{Alignment: a}}).Measure(data.New(32, samples)))(t))
	require.Greater(t, total.Share(), 0.2)
	require.Less(t, total.Share(), 0.9)
}

// Whatever the merges, the teacher's probabilities are of just the trained tokens that a search over byte offsets finds in
// the answers, each model with its own template; a sample may be cut.
func TestAlignedConversations(t *testing.T) {
	rng, total := rand.New(rand.NewPCG(3, 4)), distill.Aligned{}
	encoder := func(v *tokenizer.Tokenizer, template string) *data.Encoder {
		o := data.EncoderOptions{Template: need.Value(chat.Parse("template", template))(t)}
		return need.Value(data.NewEncoder(v, o))(t)
	}
	for range 40 {
		student, teacher := vocabularyOf(t, "</s>", randomMerges(rng)...), vocabularyOf(t, "<|end|>", randomMerges(rng)...)
		own := encoder(student, `{% for m in messages %}{{ '<u>' if m.role == 'user' else '<a>' }}{{ m.content }}</s>{% endfor %}`)
		theirs := encoder(teacher, `<s><u>bad cab<|end|>{% for m in messages %}{{ '<u>a ' if m.role == 'user' else '<a>' }}{{ m.content }}<|end|>{% endfor %}`)
		var x data.Example
		for range 2 {
			for _, role := range []string{"user", "assistant"} {
				x.Messages = append(x.Messages, chat.NewMessage(role, randomText(rng, 3)))
			}
		}
		s, of := need.Value(own.Encode(x))(t), need.Value(theirs.Encode(x))(t)
		if n := len(s.Tokens) - rng.IntN(4); n < len(s.Tokens) {
			s.Tokens, s.LossWeights, s.Words = s.Tokens[:n], s.LossWeights[:n-1], s.Words[:n]
		}
		o := distill.Options{ScorerOptions: distill.ScorerOptions{
			Alignment: need.Value(distill.NewAlignment(student, teacher))(t),
			Own:       func(data.Sample) (data.Sample, bool, error) { return of, true, nil },
		}}
		got := need.Value(o.Measure(data.New(256, []data.Sample{s})))(t)
		want := distill.Aligned{}
		places := answerPlaces(teacher, of)
		for i, p := range answerPlaces(student, s) {
			if p.to == 0 {
				continue
			}
			want.Trained++
			if j := slices.Index(places, p); j >= 0 {
				want.Aligned, want.Longest = want.Aligned+1, max(want.Longest, j)
				require.Equal(t, student.TokenText(s.Tokens[i]) == "</s>", teacher.TokenText(of.Tokens[j]) == "<|end|>")
			}
		}
		require.Equal(t, want, got)
		total.Trained, total.Aligned = total.Trained+got.Trained, total.Aligned+got.Aligned
	}
	require.Greater(t, total.Share(), 0.2)
	require.Less(t, total.Share(), 0.9)
}

// A place is the bytes of a token in an answer; to is 0 outside.
type place struct{ answer, from, to int }

// answerPlaces returns the places of the tokens behind each <a>, up to the end of the answer.
func answerPlaces(v *tokenizer.Tokenizer, s data.Sample) []place {
	list, answer, at := make([]place, len(s.Tokens)), -1, -1
	answers := 0
	for i, id := range s.Tokens {
		switch n := len(v.Piece(id)); {
		case v.TokenText(id) == "<a>":
			answer, at = answers, 0
			answers++
		case at >= 0 && v.IsSpecial(id):
			list[i], at = place{answer, at, at + 1}, -1
		case at >= 0:
			list[i] = place{answer, at, at + n}
			at += n
		}
	}
	return list
}

func TestAlignmentErrors(t *testing.T) {
	v := vocabularyOf(t, "</s>", "a b")
	_, err := distill.NewAlignment(v, nil)
	require.EqualError(t, err, "a model has no vocabulary in its file, so the tokens of student and teacher cannot be aligned")
	_, err = (&distill.Options{}).Measure()
	require.EqualError(t, err, "the alignment is nil or a zero value; NewAlignment makes one")
	failed := errors.New("no such record")
	o := distill.Options{ScorerOptions: distill.ScorerOptions{
		Alignment: need.Value(distill.NewAlignment(v, vocabularyOf(t, "<|end|>")))(t),
		Own:       func(data.Sample) (data.Sample, bool, error) { return data.Sample{}, false, failed },
	}}
	_, err = o.Measure(data.New(8, []data.Sample{{Tokens: []int32{4, 5}, Words: make([]bool, 2)}}))
	require.ErrorIs(t, err, failed)
	large := make([]string, 200)
	for i := range large {
		large[i] = fmt.Sprintf("a%d", i)
	}
	c := v.Config()
	for _, text := range large {
		c.Tokens, c.Types = append(c.Tokens, text), append(c.Types, tokenizer.Normal)
	}
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	session := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 8, Threads: 1}))(t)
	defer session.Close()
	_, err = distill.NewScorer(session, distill.ScorerOptions{TopK: 1, Alignment: need.Value(distill.NewAlignment(v, need.Value(tokenizer.New(c))(t)))(t)})
	require.EqualError(t, err, "the alignment is with another teacher")
}
