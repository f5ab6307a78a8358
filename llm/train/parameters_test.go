package train_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/train"
)

// LoadParameters restores the trained values of a checkpoint, only into tensors with the same names
// and shapes.
func TestLoadParameters(t *testing.T) {
	m := tinyModel(t)
	path := filepath.Join(t.TempDir(), "checkpoint")
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(8, 8), options(3))
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{OnSave: train.Saving(tr, path)}))
	params := func(a *lora.Adapter) (list []*ggml.Tensor) {
		for _, p := range a.Pairs() {
			list = append(list, p.A, p.B)
		}
		return list
	}
	values := func(list []*ggml.Tensor) (all [][]float32) {
		for _, x := range list {
			v := need.Value(ggml.Read[float32](x))(t)
			all = append(all, v)
		}
		return all
	}
	fresh := newAdapter(t, m, 2)
	before := values(params(fresh))
	require.NoError(t, train.LoadParameters(path, params(fresh)))
	require.Equal(t, values(params(a)), values(params(fresh)))
	require.NotEqual(t, before, values(params(fresh)))

	other := need.Value(lora.New(m, lora.Options{Rank: 3, Targets: []string{"attn_q"}}))(t)
	defer other.Close()
	before = values(params(other))
	var mismatch *train.MismatchError
	require.ErrorAs(t, train.LoadParameters(path, params(other)), &mismatch)
	require.Len(t, mismatch.Differences, len(params(other)))
	require.Equal(t, before, values(params(other)))

	file := need.Value(os.ReadFile(path))(t)
	file[len(file)-5] ^= 1
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.ErrorContains(t, train.LoadParameters(path, params(fresh)), "is a damaged checkpoint")
}
