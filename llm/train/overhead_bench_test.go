package train_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
)

// Measures the part of a training step that is not the computation of its graph.
func BenchmarkOverhead(b *testing.B) {
	for _, c := range []struct {
		config arch.Config
		base   ggml.Type
		run    scalingRun
	}{
		{benchmodel.Small(), ggml.Q8_0, scalingRun{Context: 256, Batch: 2}},
		{benchmodel.Large(), ggml.Q4_K, scalingRun{Context: 512, Batch: 1}},
	} {
		b.Run("of=training/model="+c.config.Name+"/base="+c.base.String(), func(b *testing.B) {
			path := need.Value(benchmodel.File(benchFolder, c.config.Name, c.config, c.base))(b)
			r := c.run
			r.Model, r.Rank, r.Threads, r.ComputeType = path, 8, runtime.NumCPU(), kernels.FastestType()
			require.NoError(b, r.train(func(step func() error) error {
				if err := step(); err != nil { // the first step warms up
					return err
				}
				testutil.Overhead(b, r.Context*r.Batch, step)
				return nil
			}))
		})
	}
}
