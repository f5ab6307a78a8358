package benchmodel_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/llm/model"
)

// The shapes have about the documented size, and load.
func TestOthers(t *testing.T) {
	for _, c := range benchmodel.Others() {
		t.Run(c.Name, func(t *testing.T) {
			require.InDelta(t, 1, float64(c.NumActiveParameters())/1e9, 0.45)
			c.Layers, c.Vocab = 2, 512
			path := filepath.Join(t.TempDir(), "model.gguf")
			require.NoError(t, benchmodel.Write(path, c, ggml.Q8_0))
			m, err := model.Load(path, model.LoadOptions{})
			require.NoError(t, err)
			require.Equal(t, c.AttnSoftcap, m.Config().AttnSoftcap)
			require.Equal(t, c.MaxALiBiBias, m.Config().MaxALiBiBias)
			require.NoError(t, m.Close())
		})
	}
}
