package benchmodel_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

// The shapes have the size that their names say, and load.
func TestOthers(t *testing.T) {
	need.Time(t, "makes large models")
	for _, c := range benchmodel.Others() {
		t.Run(c.Name, func(t *testing.T) {
			var billions float64
			_, size, _ := strings.Cut(c.Name, "-")
			_, err := fmt.Sscanf(size, "%fB", &billions)
			require.NoError(t, err)
			require.InEpsilon(t, billions, float64(c.NumParameters())/1e9, 0.15)
			c.Layers, c.Vocab = 4, 512
			if c.KVHeadsAt != nil {
				c.KVHeadsAt = []int{0, c.KVHeads, 0, 0}
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			require.NoError(t, benchmodel.Write(path, c, ggml.Q8_0))
			m := need.Value(model.Load(path, model.LoadOptions{}))(t)
			require.Equal(t, c.AttnSoftcap, m.Config().AttnSoftcap)
			require.Equal(t, c.MaxALiBiBias, m.Config().MaxALiBiBias)
			require.NoError(t, m.Close())
		})
	}
}
