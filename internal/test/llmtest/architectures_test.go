package llmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

// Each architecture has a model whose rows are multiples of every block size.
func TestWideArchFile(t *testing.T) {
	for _, name := range llmtest.TestedArchitectures() {
		t.Run(name, func(t *testing.T) {
			m := need.Value(model.Load(llmtest.WideArchFile(t, name, ggml.F32), model.LoadOptions{}))(t)
			defer m.Close()
			for w := range m.Weights() {
				of := m.Architecture().Weight(w.Name())
				if of.IsConvertible() && w.NumDims() > 1 && of.Kind != "ssm_dt" { // its rows are as short as the rank
					require.Zero(t, w.Dim(0)%ggml.Q4_K.BlockSize(), w.Name())
				}
			}
		})
	}
}
