package lossgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// A nil or zero model gives an error, whatever it is asked to train.
func TestNoLossGraphOfZeroValue(t *testing.T) {
	e := need.Value(device.NewCPU(1))(t)
	defer e.Close()
	_, err := lossgraph.New(new(model.Model), e, lossgraph.Options{Length: 1, Batch: 1, Grads: map[*ggml.Tensor]*ggml.Tensor{}})
	require.ErrorIs(t, err, ggml.ErrZeroValue)
}

// A closed adapter, whatever its pairs, and a closed model give an error.
func TestNoLossGraphOfClosed(t *testing.T) {
	for _, set := range []device.OpSet{device.Kernels, device.Stock} {
		e := need.Value(device.New(device.Options{OpSet: set, Threads: 1}))(t)
		defer e.Close()
		for _, name := range llmtest.TestedArchitectures() {
			m, store := llmtest.ArchModel(t, name, ggml.Q8_0), ggml.NewContext()
			defer store.Close()
			a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 1}))(t)
			adapters, grads := a.WithScale(1), map[*ggml.Tensor]*ggml.Tensor{}
			for _, pairs := range adapters {
				for _, x := range []*ggml.Tensor{pairs[0].A, pairs[0].B} {
					grads[x] = store.NewTensor(ggml.F32, x.Shape()...)
				}
			}
			for _, close := range []func() error{a.Close, m.Close} {
				require.NoError(t, close())
				for _, checkpoint := range []bool{false, true} {
					_, err := lossgraph.New(m, e, lossgraph.Options{Adapters: adapters, Grads: grads, Length: 8, Batch: 2, Checkpoint: checkpoint})
					require.ErrorIs(t, err, ggml.ErrClosed, name)
				}
			}
		}
	}
}
