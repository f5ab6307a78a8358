package preference

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// evaluators returns an evaluator of a small model for each rank.
func evaluators(t *testing.T, groups ...parallel.Group) (list []*train.Evaluator, m *model.Model) {
	m = llmtest.ArchModel(t, "llama", ggml.F32)
	for _, g := range groups {
		e := need.Value(train.NewEvaluator(m, train.EvaluatorOptions{Threads: 1, Batch: 2, Group: g}))(t)
		t.Cleanup(func() { e.Close() })
		list = append(list, e)
	}
	return list, m
}

// randomRows returns rows of two samples, of which one occurs twice.
func randomRows(t *testing.T, n, vocab int) *data.Dataset {
	var rows []data.Row
	for i := range n {
		row := data.Row{{Tokens: llmtest.RandomTokens(uint64(i), 3+i%7, vocab)}, {Tokens: llmtest.RandomTokens(uint64(100+i), 4+i%5, vocab), Label: data.Undesirable}}
		if i == n-1 {
			row[0] = rows[0][0]
		}
		rows = append(rows, row)
	}
	return need.Value(data.NewRows(30, rows))(t)
}

// inParts makes the parts of this test small.
func inParts(t *testing.T) {
	before := partTokens
	partTokens = 30
	t.Cleanup(func() { partTokens = before })
}

// requireLogProbs requires the log-probabilities of an evaluator for all samples.
func requireLogProbs(t *testing.T, want [][]float64, d *data.Dataset, r *Reference, epsilon float64) {
	t.Helper()
	for i := range d.Len() {
		for k, s := range need.Value(d.Row(i))(t) {
			require.InEpsilon(t, want[i][k], r.logProb(s), epsilon)
		}
	}
}

// Log-probabilities are the evaluator's, computed, from the file, or continued wherever the first process ended. The file
// is the same to the byte.
func TestReferenceInFolder(t *testing.T) {
	inParts(t)
	list, m := evaluators(t, nil)
	e, d := list[0], randomRows(t, 14, 40)
	require.Equal(t, 40, m.Config().Vocab)
	want := need.Value(e.LogProbs(t.Context(), nil, d))(t)
	add := func(ctx context.Context, o ReferenceOptions) (*Reference, int, error) {
		o.Evaluator = e
		var r Reference
		known, err := r.Add(ctx, d, o)
		return &r, known, err
	}
	r, known, err := add(t.Context(), ReferenceOptions{})
	require.NoError(t, err)
	require.Zero(t, known)
	requireLogProbs(t, want, d, r, 1e-5)

	whole := t.TempDir()
	parts := 0
	r, _, err = add(t.Context(), ReferenceOptions{Folder: whole, Key: "model", Progress: func(done, total int) {
		parts++
		require.LessOrEqual(t, done, total)
		require.Equal(t, d.NumTokens(), total)
	}})
	require.NoError(t, err)
	require.Greater(t, parts, 3)
	files := need.Value(filepath.Glob(filepath.Join(whole, "*")))(t)
	require.Len(t, files, 1)
	file := need.Value(os.ReadFile(files[0]))(t)
	values := r.logProbs

	again, known, err := add(t.Context(), ReferenceOptions{Folder: whole, Key: "model", Progress: func(int, int) { t.Error("it computes") }})
	require.NoError(t, err)
	require.Equal(t, [2]any{28, values}, [2]any{known, again.logProbs})

	for stop := range parts { // after each part
		folder := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		left := stop
		_, _, err := add(ctx, ReferenceOptions{Folder: folder, Key: "model", Progress: func(int, int) {
			if left--; left < 0 {
				cancel()
			}
		}})
		if stop < parts-1 {
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, need.Value(filepath.Glob(filepath.Join(folder, "*.logprobs")))(t))
		}
		continued, known, err := add(t.Context(), ReferenceOptions{Folder: folder, Key: "model"})
		require.NoError(t, err)
		require.Positive(t, known)
		require.Equal(t, values, continued.logProbs)
		require.Equal(t, file, need.Value(os.ReadFile(filepath.Join(folder, filepath.Base(files[0]))))(t))
	}

	// A damaged file is made again, and another key has another file.
	file[len(file)-1] ^= 1
	require.NoError(t, os.WriteFile(files[0], file, 0o600))
	warnings := 0
	r, known, err = add(t.Context(), ReferenceOptions{Folder: whole, Key: "model", Warn: func(string) { warnings++ }})
	require.NoError(t, err)
	require.Equal(t, [3]any{0, 1, values}, [3]any{known, warnings, r.logProbs})
	_, known, err = add(t.Context(), ReferenceOptions{Folder: whole, Key: "other"})
	require.NoError(t, err)
	require.Zero(t, known)
	require.Len(t, need.Value(filepath.Glob(filepath.Join(whole, "*")))(t), 2)

	_, _, err = add(t.Context(), ReferenceOptions{Folder: whole})
	require.EqualError(t, err, "a cache of log-probabilities needs a key that identifies the model")
	_, _, err = add(t.Context(), ReferenceOptions{Folder: filepath.Join(files[0], "x"), Key: "model"})
	require.ErrorContains(t, err, "the log-probabilities of the reference cannot be kept: ")
	_, err = (*Reference)(nil).Add(t.Context(), d, ReferenceOptions{})
	require.EqualError(t, err, "the reference is nil")
	_, err = new(Reference).Add(t.Context(), d, ReferenceOptions{})
	require.EqualError(t, err, "the evaluator is nil")
}

// The ranks of a group share the work, and rank 0 alone has the file: what it has, no rank computes.
func TestReferenceOfGroup(t *testing.T) {
	inParts(t)
	single, _ := evaluators(t, nil)
	d, folder := randomRows(t, 14, 40), t.TempDir()
	want := need.Value(single[0].LogProbs(t.Context(), nil, d))(t)
	rows := need.Value(single[0].LogProbs(t.Context(), nil, d, 9, 2))(t)
	for i, row := range []int{9, 2} {
		require.InEpsilonSlice(t, want[row], rows[i], 1e-5)
	}
	_, err := single[0].LogProbs(t.Context(), nil, d, 14)
	require.EqualError(t, err, "there is no row 14: the data set has 14")

	groups := parallel.Local(3)
	ranks, _ := evaluators(t, groups...)
	add := func(ctxs ...context.Context) (refs []*Reference, known [3]int, errs [3]error) {
		var all sync.WaitGroup
		for i, e := range ranks {
			o := ReferenceOptions{Evaluator: e, Key: "model", Folder: filepath.Join(folder, "of another machine")}
			if i == 0 {
				o.Folder = folder
			}
			ctx := t.Context()
			if i < len(ctxs) {
				ctx = ctxs[i]
			}
			r := new(Reference)
			refs = append(refs, r)
			all.Add(1)
			go func() {
				defer all.Done()
				known[i], errs[i] = r.Add(ctx, d, o)
			}()
		}
		all.Wait()
		return refs, known, errs
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, errs := add(ended)
	for _, err := range errs {
		require.Error(t, err)
	}
	for _, known := range []int{0, 28} {
		refs, found, errs := add()
		for i := range refs {
			require.NoError(t, errs[i])
			require.Equal(t, known, found[i])
			requireLogProbs(t, want, d, refs[i], 1e-5)
			require.Equal(t, refs[0].logProbs, refs[i].logProbs)
		}
	}
	require.NoDirExists(t, filepath.Join(folder, "of another machine"))
	require.True(t, math.IsNaN(new(Reference).logProb(data.Sample{Tokens: []int32{1}})))
}
