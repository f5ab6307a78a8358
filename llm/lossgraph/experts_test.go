package lossgraph_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Experts of each type are the base of adapters of all matrices: by both lowerings the loss and the
// gradients equal the graph's in float64.
func TestTypesOfExperts(t *testing.T) {
	need.Time(t, "gradients with many types")
	for _, k := range llmtest.ExpertTypes() {
		t.Run(fmt.Sprintf("%s %v", k.Arch, k.Experts), func(t *testing.T) {
			t.Parallel()
			m := k.Load(t, model.LoadOptions{})
			s := llmtest.NewLoRASetup(t, m, 3, 0.75)
			requireAllAdapted(t, s)
			batch := llmtest.NewBatch(m.Config().Vocab, archLength)
			o := lossgraph.Options{Length: archLength, Adapters: s.Adapters, Grads: s.Trained()}
			loss, grads := llmtest.ExactGradients(t, m, batch, o, llmtest.RoundedGELU)
			bound := tolerated(m)
			for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
				e := need.Value(device.New(device.Options{Threads: 2, OpSet: ops}))(t)
				t.Cleanup(func() { e.Close() })
				got := s.Compute(t, e, batch, lossgraph.Options{Length: archLength, Batch: 2})
				require.InEpsilon(t, loss, got, bound.loss, ops)
				requireGradients(t, grads, o.Grads, bound.gradient)
			}
		})
	}
}
