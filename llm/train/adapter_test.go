package train_test

import (
	"context"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func newAdapter(t *testing.T, m *model.Model, seed uint64) *lora.Adapter {
	t.Helper()
	a := need.Value(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Ranks: map[string]int{"token_embd": 2, "output": 3}, Seed: seed}))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

func matrices(a *lora.Adapter) []*ggml.Tensor {
	var list []*ggml.Tensor
	for _, p := range a.Pairs() {
		list = append(list, p.A, p.B)
	}
	return list
}

func adapterTrainer(t *testing.T, m *model.Model, a *lora.Adapter, d *data.Dataset, o train.Options) *train.Trainer {
	t.Helper()
	tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, d, o))(t)
	t.Cleanup(func() { tr.Close() })
	return tr
}

func values(t *testing.T, a *lora.Adapter) [][]float32 {
	t.Helper()
	var list [][]float32
	for _, x := range matrices(a) {
		v := need.Value(ggml.Read[float32](x))(t)
		list = append(list, v)
	}
	return list
}

// Training an adapter changes only the adapter.
func TestAdapterLearns(t *testing.T) {
	m := tinyModel(t)
	before := snapshot(t, m)
	a := newAdapter(t, m, 1)
	d := pattern(32, 12)
	o := options(60)
	o.Schedule.Peak = 0.03
	tr := adapterTrainer(t, m, a, d, o)
	ctx := context.Background()
	plain := need.Value(tr.EvaluateWith(ctx, nil, d))(t)
	fresh := need.Value(tr.Evaluate(ctx, d))(t)
	require.Equal(t, plain, fresh, "B is zero at the start")
	require.NoError(t, tr.Run(ctx, train.RunOptions{}))
	after := need.Value(tr.Evaluate(ctx, d))(t)
	require.Less(t, after.Loss, 0.7*plain.Loss)
	require.Greater(t, after.Accuracy, plain.Accuracy)
	again := need.Value(tr.EvaluateWith(ctx, nil, d))(t)
	plain.Step = 60
	require.Equal(t, plain, again)
	require.Equal(t, before, snapshot(t, m))
}

// Trainers of different adapters that share a model, each in its own goroutine, compute the same as
// alone.
func TestConcurrentTrainers(t *testing.T) {
	const runs = 3
	m := tinyModel(t)
	run := func(i int, a *lora.Adapter) error {
		o := options(25)
		o.Seed, o.Threads = uint64(i), 1
		tr, err := train.New(m, train.Trainables{Adapters: a.WithScale(1)}, pattern(16, 8+i), o)
		if err != nil {
			return err
		}
		defer tr.Close()
		return tr.Run(context.Background(), train.RunOptions{})
	}
	var alone, together []*lora.Adapter
	for i := range runs {
		alone = append(alone, newAdapter(t, m, uint64(i)))
		together = append(together, newAdapter(t, m, uint64(i)))
		require.NoError(t, run(i, alone[i]))
	}
	errs := make([]error, runs)
	var group sync.WaitGroup
	for i := range runs {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = run(i, together[i])
		}()
	}
	group.Wait()
	for i := range runs {
		require.NoError(t, errs[i])
		require.Equal(t, values(t, alone[i]), values(t, together[i]))
	}
}

// Steps, evaluations and checkpoints leak neither Go's nor C's memory.
func TestMemoryDoesNotGrow(t *testing.T) {
	need.Time(t, "1,500 steps")
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	d := pattern(16, 16)
	const warm, steps = 500, 1500 // the race detector's own tables grow by up to 16 MB before, and vary by 8 MB after
	tr := adapterTrainer(t, m, a, d, options(steps))
	path := filepath.Join(t.TempDir(), "run.gguf")
	var heap, resident [2]uint64
	var objects [2]map[string]int
	measure := func(i int) {
		var s runtime.MemStats
		runtime.GC() // twice: the second collection frees memory with a cleanup
		debug.FreeOSMemory()
		runtime.ReadMemStats(&s)
		heap[i], resident[i], objects[i] = s.HeapAlloc, rss.Now(), ggml.OpenObjects()
	}
	err := tr.Run(context.Background(), train.RunOptions{
		OnSave: train.Saving(tr, path), SaveEvery: 10, EvalData: d.Limit(5), EvalEvery: 10,
		OnStep: func(p train.StepMetrics) {
			switch p.Step {
			case warm:
				measure(0)
			case steps:
				measure(1)
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, objects[0], objects[1])
	const step = 1 << 10 // less than a graph, or a copy of its inputs
	require.Less(t, heap[1], heap[0]+step*(steps-warm))
	require.Less(t, resident[1], resident[0]+20*step*(steps-warm))
}

// A checkpoint of an adapter cannot be resumed with a base of other weights.
func TestCheckpointOfAnotherBase(t *testing.T) {
	d := pattern(8, 8)
	path := filepath.Join(t.TempDir(), "run.gguf")
	m := tinyModel(t)
	tr := adapterTrainer(t, m, newAdapter(t, m, 1), d, options(3))
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	require.NoError(t, tr.SaveCheckpoint(path))
	require.NoError(t, tr.LoadCheckpoint(path))

	other := need.Value(model.New(m.Config(), nil, 6))(t)
	defer other.Close()
	tr = adapterTrainer(t, other, newAdapter(t, other, 1), d, options(3))
	require.ErrorContains(t, tr.LoadCheckpoint(path), "belongs to another run: other frozen weights; ")
	require.Zero(t, tr.Steps())
}

func TestParameterErrors(t *testing.T) {
	m := tinyModel(t)
	a, b := newAdapter(t, m, 1), newAdapter(t, m, 2)
	d := pattern(4, 4)
	c := ggml.NewContext()
	defer c.Close()
	stray := c.NewTensor(ggml.F32, 3).SetName("stray")
	embedding := m.Weight("token_embd.weight")
	for want, try := range map[string]train.Trainables{
		"no parameters": {Frozen: a.WithScale(1)},
		"the parameter stray f32[3] is not a weight of the model":            {ModelWeights: []*ggml.Tensor{stray}},
		`"token_embd.weight.lora_a" names two matrices`:                      {Adapters: lora.Join(a.WithScale(1), b.WithScale(1))},
		`"token_embd.weight" names two matrices; each parameter needs its o`: {ModelWeights: []*ggml.Tensor{embedding, embedding}},
		"the adapter of token_embd.weight cannot be trained: its scale is 0": {Adapters: a.WithScale(0)},
	} {
		_, err := train.New(m, try, d, options(3))
		require.ErrorContains(t, err, want)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	packed := need.Value(model.Load(path, model.LoadOptions{Repack: true}))(t)
	defer packed.Close()
	_, err := train.New(packed, train.Trainables{ModelWeights: weights(packed)}, d, options(3))
	require.ErrorContains(t, err, "the model was loaded with Repack")
}
