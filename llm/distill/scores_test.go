package distill_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// randomSamples returns samples of a few tokens, some of which are trained.
func randomSamples(vocab, n int) (list []data.Sample) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range n {
		var s data.Sample
		for i := range 3 + rng.IntN(20) {
			s.Tokens = append(s.Tokens, rng.Int32N(int32(vocab)))
			if i > 0 {
				s.LossWeights = append(s.LossWeights, float32(rng.IntN(2)))
			}
		}
		s.LossWeights[len(s.LossWeights)-1] = 1
		list = append(list, s)
	}
	return list
}

// scorer returns a scorer by a session of few tokens at a time.
func scorer(t testing.TB, m *model.Model, o distill.ScorerOptions) *distill.Scorer {
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 32, Batch: 7, Threads: 1}))(t)
	t.Cleanup(func() { s.Close() })
	return need.Value(distill.NewScorer(s, o))(t)
}

// The tokens are the likeliest by the logits in float64, with their probabilities at the temperature over the whole
// vocabulary of the teacher, of which the student may lack the last tokens.
func TestScore(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	vocab := m.Config().Vocab
	for _, o := range []distill.ScorerOptions{{TopK: 5}, {TopK: 1, Temperature: 0.5, Vocab: vocab - 9}, {TopK: vocab, Temperature: 3, Vocab: vocab + 9}} {
		of := scorer(t, m, o)
		temperature, size := o.Temperature, min(o.Vocab, vocab)
		if temperature == 0 {
			temperature = 1
		}
		if size == 0 {
			size = vocab
		}
		for _, s := range randomSamples(vocab, 4) {
			got := need.Value(of.Score(context.Background(), s))(t)
			logits := llmtest.ExactLogits(t, m, nil, s.Tokens[:s.Predicted()], s.Predicted())
			trained := train.TrainedTokens(s)
			require.Len(t, got.Tokens, o.TopK*len(trained))
			for i, at := range trained {
				row := refmath.Scale(refmath.From(logits[at]), 1/temperature)
				want := refmath.ArgSort(refmath.From(row.Data[:size]), true).Data[:o.TopK]
				tokens, probs := got.Tokens[i*o.TopK:(i+1)*o.TopK], got.Probs[i*(o.TopK+1):(i+1)*(o.TopK+1)]
				lse, rest := refmath.LogSumExp(row.Data), 1.0
				for j, id := range want {
					require.InDelta(t, row.Data[int(id)], row.Data[tokens[j]], 1e-4) // logits of single precision may swap equal ones
					p := math.Exp(row.Data[tokens[j]] - lse)
					require.InDelta(t, p, probs[j], 1e-5)
					rest -= p
				}
				require.InDelta(t, max(0, rest), probs[o.TopK], 1e-5)
			}
		}
	}
}

// opened returns the scores of a data set by a teacher whose calls are counted.
func opened(t testing.TB, m *model.Model, folder string, scored *int, sets ...*data.Dataset) (*distill.Scores, error) {
	t.Helper()
	o := distill.Options{Folder: folder, Key: "teacher", ScorerOptions: distill.ScorerOptions{TopK: 3}, Progress: func(int, int) { *scored++ }}
	s, err := distill.Open(context.Background(), func() (*distill.Scorer, error) { return scorer(t, m, o.ScorerOptions), nil }, o, sets...)
	return s, err
}

// Scores read from the file are the scorer's; the teacher is asked once for each different sample, and not at all if the
// file is complete.
func TestScores(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	samples := randomSamples(m.Config().Vocab, 6)
	d, again := data.New(32, append(samples, samples[2])), data.New(32, samples[:2])
	of := scorer(t, m, distill.ScorerOptions{TopK: 3})
	for _, folder := range []string{"", t.TempDir()} {
		for _, want := range []int{6, 0} {
			scored := 0
			s := need.Value(opened(t, m, folder, &scored, d, again))(t)
			if folder != "" || want > 0 {
				require.Equal(t, want, scored)
			}
			require.Equal(t, 6, s.Len())
			for _, x := range samples {
				require.Equal(t, need.Value(of.Score(context.Background(), x))(t), need.Value(s.Of(x))(t))
			}
			x := samples[0]
			x.LossWeights = nil
			_, err := s.Of(x)
			require.EqualError(t, err, fmt.Sprintf("the teacher has not scored a sample of %d tokens", len(x.Tokens)))
			require.NoError(t, s.Close())
		}
	}
}

// A file that was cut anywhere, as by a killed process, or has a wrong byte is continued after its last whole record,
// and ends the same to the byte.
func TestScoresResume(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	d := data.New(32, randomSamples(m.Config().Vocab, 6))
	folder, scored := t.TempDir(), 0
	require.NoError(t, need.Value(opened(t, m, folder, &scored, d))(t).Close())
	files := need.Value(filepath.Glob(filepath.Join(folder, "*")))(t)
	require.Len(t, files, 1)
	whole := need.Value(os.ReadFile(files[0]))(t)
	before := 6
	for cut := len(whole); cut >= 0; cut -= 97 {
		damaged := append([]byte{}, whole[:cut]...)
		if cut%2 == 0 && cut > 0 {
			damaged[cut-1]++
		}
		require.NoError(t, os.Rename(files[0], files[0]+".pending"))
		require.NoError(t, os.WriteFile(files[0]+".pending", damaged, 0o666))
		scored = 0
		require.NoError(t, need.Value(opened(t, m, folder, &scored, d))(t).Close())
		require.Equal(t, whole, need.Value(os.ReadFile(files[0]))(t))
		require.GreaterOrEqual(t, scored, 6-before)
		before = 6 - scored
		require.NoFileExists(t, files[0]+".pending")
	}
	require.Zero(t, before)

	// A complete file that is damaged is not used.
	whole[len(whole)-5]++
	require.NoError(t, os.WriteFile(files[0], whole, 0o666))
	scored = 0
	require.NoError(t, need.Value(opened(t, m, folder, &scored, d))(t).Close())
	require.Equal(t, 6, scored)
}

func TestErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	session := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 4, Threads: 1}))(t)
	defer session.Close()
	for want, o := range map[string]distill.ScorerOptions{
		"the 0 most likely tokens of the teacher are asked for; at least 1 is needed, and the vocabulary has 96":  {},
		"the 31 most likely tokens of the teacher are asked for; at least 1 is needed, and the vocabulary has 30": {TopK: 31, Vocab: 30},
		"the temperature is NaN; it must be positive and finite":                                                  {TopK: 1, Temperature: math.NaN()},
	} {
		_, err := distill.NewScorer(session, o)
		require.EqualError(t, err, want)
	}
	of := need.Value(distill.NewScorer(session, distill.ScorerOptions{TopK: 1}))(t)
	_, err := of.Score(context.Background(), data.Sample{Tokens: make([]int32, 6)})
	require.EqualError(t, err, "a sample has 5 tokens, and the teacher's session holds 4")
	failed := errors.New("no teacher")
	_, err = distill.Open(context.Background(), func() (*distill.Scorer, error) { return nil, failed }, distill.Options{ScorerOptions: distill.ScorerOptions{TopK: 1}}, data.New(8, []data.Sample{{Tokens: []int32{1, 2}}}))
	require.ErrorIs(t, err, failed)
}

// Teachers share the samples by their names. Each has its own file, which does not change with another teacher.
func TestScoresOfNames(t *testing.T) {
	m, other := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32)
	samples := randomSamples(m.Config().Vocab, 6)
	for i := range samples {
		samples[i].Teacher = []string{"", "general", "law"}[i%3]
	}
	same := samples[0] // the same tokens by another teacher
	same.Teacher = "law"
	d, folder := data.New(32, append(samples, same)), t.TempDir()
	general, law := scorer(t, m, distill.ScorerOptions{TopK: 3}), scorer(t, other, distill.ScorerOptions{TopK: 3})
	open := func(of *distill.Scorer, names ...string) *distill.Scores {
		o := distill.Options{Folder: folder, ScorerOptions: distill.ScorerOptions{TopK: 3}, Names: names}
		last := [2]int{}
		o.Progress = func(done, total int) { last = [2]int{done, total} }
		s := need.Value(distill.Open(context.Background(), func() (*distill.Scorer, error) { return of, nil }, o, d))(t)
		t.Cleanup(func() { s.Close() })
		require.Equal(t, last[1], last[0], "progress ends at the total")
		return s
	}
	byGeneral, byLaw := open(general, "", "general"), open(law, "law")
	require.Equal(t, 4, byGeneral.Len())
	require.Equal(t, 3, byLaw.Len())
	for _, x := range append(samples, same) {
		of, has, lacks := general, byGeneral, byLaw
		if x.Teacher == "law" {
			of, has, lacks = law, byLaw, byGeneral
		}
		require.Equal(t, need.Value(of.Score(context.Background(), x))(t), need.Value(has.Of(x))(t))
		_, err := lacks.Of(x)
		require.ErrorContains(t, err, "the teacher has not scored a sample")
	}
	require.Equal(t, 4, open(nil, "", "general").FromCache())
	require.Equal(t, 3, open(nil, "law").FromCache())
}
