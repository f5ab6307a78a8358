package distill_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// prompts returns samples whose last three tokens are trained, after an earlier answer of one token.
func prompts(vocab, n int) (list []data.Sample) {
	for i := range n {
		s := data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 9+i%3, vocab), Origin: data.Origin{Line: i + 1}}
		s.LossWeights = make([]float32, len(s.Tokens)-1)
		s.LossWeights[1] = 1
		for j := len(s.LossWeights) - 3; j < len(s.LossWeights); j++ {
			s.LossWeights[j] = 1
		}
		list = append(list, s)
	}
	return list
}

func onPolicy(t testing.TB, m *model.Model, d *data.Dataset, o distill.OnPolicyOptions) *distill.OnPolicy {
	o.Threads = 1
	return need.Value(distill.NewOnPolicy(m, scorer(t, m, distill.ScorerOptions{TopK: 3}), d, o))(t)
}

func rowsOf(t testing.TB, d *data.Dataset) (rows []data.Row) {
	for i := range d.Len() {
		rows = append(rows, need.Value(d.Row(i))(t))
	}
	return rows
}

// Answers continue the prompts before the last trained tokens, end at the limit or at the end of a text, and are scored by
// the teacher. They depend on seed and step alone: another step has other answers, the same step equal ones, however many
// are computed together and whatever was computed before.
func TestOnPolicy(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	m.Tokenizer = instructtest.Vocabulary(t)
	d := data.New(16, prompts(m.Config().Vocab, 7))
	rows := rowsOf(t, d)
	p := onPolicy(t, m, d, distill.OnPolicyOptions{Share: 1, MaxTokens: 6, Sequences: 3, Seed: 5})
	require.Equal(t, 8+6-1, p.Longest())
	first := need.Value(p.Rows(context.Background(), 1, rows))(t)
	require.Equal(t, rowsOf(t, d), rows, "the rows are not changed")
	of := scorer(t, m, distill.ScorerOptions{TopK: 3})
	for i, row := range first {
		require.Len(t, row, 1)
		prompt := len(rows[i][0].Tokens) - 3
		require.Equal(t, rows[i][0].Tokens[:prompt], row[0].Tokens[:prompt])
		n := len(row[0].Tokens) - prompt
		require.LessOrEqual(t, n, 6)
		if n < 6 {
			require.True(t, m.Tokenizer.IsEOG(row[0].Tokens[len(row[0].Tokens)-1]))
		}
		require.Equal(t, n, row[0].Targets())
		require.Equal(t, prompt-1, train.TrainedTokens(row[0])[0])
		require.Equal(t, rows[i][0].Origin, row[0].Origin)
		said, has := p.Of(row[0])
		require.True(t, has)
		require.Equal(t, need.Value(of.Score(context.Background(), row[0]))(t), said)
	}
	_, has := p.Of(rows[0][0])
	require.False(t, has, "the answer of the data")
	second := need.Value(p.Rows(context.Background(), 2, rows))(t)
	require.NotEqual(t, first, second)
	require.Equal(t, first, need.Value(p.Rows(context.Background(), 1, rows))(t))
	answers, tokens, took := p.Generated()
	require.Equal(t, 21, answers)
	require.Greater(t, tokens, 21)
	require.Positive(t, took)

	replaced := 0
	few := onPolicy(t, m, d, distill.OnPolicyOptions{Share: 0.5, MaxTokens: 6, Seed: 5})
	for step := range 40 {
		for i, row := range need.Value(few.Rows(context.Background(), step, rows))(t) {
			if _, has := few.Of(row[0]); has {
				replaced++
			} else {
				require.Equal(t, rows[i], row)
			}
		}
	}
	require.InDelta(t, 0.5*40*7, replaced, 4*math.Sqrt(0.25*40*7))
}

// Answers are drawn from the student's probabilities: their first tokens are as frequent as the logits say.
func TestOnPolicySamplesTheStudent(t *testing.T) {
	need.Time(t, "trains and samples by turns")
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	m.Tokenizer = instructtest.Vocabulary(t)
	d := data.New(16, prompts(m.Config().Vocab, 1))
	rows := rowsOf(t, d)
	p := onPolicy(t, m, d, distill.OnPolicyOptions{Share: 1, MaxTokens: 1, Seed: 9})
	prompt := rows[0][0].Tokens[:len(rows[0][0].Tokens)-3]
	logits := llmtest.ExactLogits(t, m, nil, prompt, len(prompt))[len(prompt)-1]
	const n = 1500
	counts := map[int32]float64{}
	for step := range n {
		row := need.Value(p.Rows(context.Background(), step, rows))(t)[0]
		counts[row[0].Tokens[len(prompt)]]++
	}
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp(z)
	}
	distance := 0.0 // χ² over its degrees of freedom
	for id, z := range logits {
		want := n * math.Exp(z) / sum
		distance += (counts[int32(id)] - want) * (counts[int32(id)] - want) / want
	}
	require.Less(t, distance/float64(len(logits)-1), 1.6)
}

func TestOnPolicyErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	of := scorer(t, m, distill.ScorerOptions{TopK: 3})
	d := data.New(64, []data.Sample{{Tokens: make([]int32, 40), LossWeights: append(make([]float32, 38), 1)}})
	o := distill.OnPolicyOptions{Share: 1, MaxTokens: 6}
	_, err := distill.NewOnPolicy(m, of, d, o)
	require.EqualError(t, err, "the student has no vocabulary in its file, so nobody knows which token ends its answers")
	m.Tokenizer = instructtest.Vocabulary(t)
	_, err = distill.NewOnPolicy(m, of, d, o)
	require.EqualError(t, err, "answers with their prompts have up to 44 tokens, and the teacher's session holds 32")
	_, err = distill.NewOnPolicy(m, nil, d, o)
	require.EqualError(t, err, "the teacher is nil or a zero value; NewScorer makes one")
	_, err = distill.NewOnPolicy(m, of, d, distill.OnPolicyOptions{MaxTokens: 6})
	require.EqualError(t, err, "the share of answers by the student is 0; it must be more than 0 and at most 1")
	_, err = distill.NewOnPolicy(m, of, d, distill.OnPolicyOptions{Share: 1})
	require.EqualError(t, err, "answers of 0 tokens are empty")
}

// The teacher that a sample names scores the student's answer to it.
func TestOnPolicyOfTeachers(t *testing.T) {
	m, other := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32)
	m.Tokenizer = instructtest.Vocabulary(t)
	samples := prompts(m.Config().Vocab, 4)
	samples[1].Teacher, samples[2].Teacher = "law", "law"
	d := data.New(16, samples)
	of := map[string]*distill.Scorer{"": scorer(t, m, distill.ScorerOptions{TopK: 3}), "law": scorer(t, other, distill.ScorerOptions{TopK: 3})}
	o := distill.OnPolicyOptions{Share: 1, MaxTokens: 6, Teachers: of, Threads: 1}
	p := need.Value(distill.NewOnPolicy(m, of[""], d, o))(t)
	for i, row := range need.Value(p.Rows(context.Background(), 1, rowsOf(t, d)))(t) {
		require.Equal(t, samples[i].Teacher, row[0].Teacher)
		said, has := p.Of(row[0])
		require.True(t, has)
		require.Equal(t, need.Value(of[row[0].Teacher].Score(context.Background(), row[0]))(t), said)
	}
	o.Teachers = nil
	_, err := distill.NewOnPolicy(m, of[""], d, o)
	require.EqualError(t, err, `a sample names the teacher "law", which is missing`)
}
