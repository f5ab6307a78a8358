package arch_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/state"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// Counts of a file that no tensor of it bears out are refused before anything is allocated by them.
func TestHostileCounts(t *testing.T) {
	for _, name := range llmtest.TestedArchitectures() {
		g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, name, ggml.F32)))(t)
		c := need.Value(arch.ReadConfig(g))(t)
		for key, value := range c.HyperParameters() {
			if _, ok := value.(uint32); !ok {
				continue
			}
			for _, hostile := range []uint32{1 << 31, math.MaxUint32} {
				require.NoError(t, g.Set(key, hostile))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				c, err := arch.ReadConfig(g)
				if err == nil {
					_, err = arch.Resolve(c)
				}
				runtime.ReadMemStats(&after)
				assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<22), "%s %d", key, hostile)
				if key == name+".block_count" {
					assert.ErrorContains(t, err, "layers; the limit is 512", key)
				}
			}
			require.NoError(t, g.Set(key, value))
		}
		require.NoError(t, g.Close())
	}
}

// Options of a session that no memory holds are errors of each part that keeps something.
func TestHostileStates(t *testing.T) {
	newTensor := func(ggml.Type, ...int64) *ggml.Tensor { return nil }
	latent := arch.LatentAttention{Attention: arch.Attention{HeadSize: 8, KVHeads: 1}}
	for _, part := range []arch.Stateful{latent, latent.Attention, arch.ShortConv{Width: 8, Length: 3}} {
		for _, c := range []struct {
			o    state.Options
			want string
		}{
			{state.Options{NewTensor: newTensor, Slots: 1 << 31, Length: 8}, "states of 2147483648 sequences are impossible; there can be 1 to 65536"},
			{state.Options{NewTensor: newTensor, Slots: -1, Length: 8}, "states of -1 sequences are impossible; there can be 1 to 65536"},
			{state.Options{NewTensor: newTensor, Slots: 1, Length: 1 << 31}, "states of 2147483648 tokens are impossible; there can be 1 to 2147483647"},
			{state.Options{NewTensor: newTensor, Slots: 1}, "states of 0 tokens are impossible; there can be 1 to 2147483647"},
			{state.Options{NewTensor: newTensor, Slots: 1, Length: 8, Batch: -1}, "a pass of -1 tokens is impossible"},
			{state.Options{Slots: 1, Length: 8}, "Options.NewTensor is nil; it makes the tensors of a state"},
		} {
			_, err := part.NewStates(c.o)
			assert.EqualError(t, err, c.want, "%T", part)
		}
	}
	o := state.Options{NewTensor: newTensor, Slots: 1, Length: 8}
	_, err := arch.Attention{HeadSize: 1 << 40, KVHeads: 1 << 40}.NewStates(o)
	assert.EqualError(t, err, "a KV cache of 1099511627776 heads of 1099511627776 elements and a window of 0 tokens is impossible")
	_, err = arch.ShortConv{Width: -1, Length: 3}.NewStates(o)
	assert.EqualError(t, err, "a convolution over 3 tokens of -1 numbers each is impossible: both must be at least 1")
}
