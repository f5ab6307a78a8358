package nn_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

// Attention of the last 512 tokens of 2048 to their cache, by the CPU's lowering and by flash attention, in turn, in the
// processor time of one thread.
func BenchmarkCachedAttention(b *testing.B) {
	const heads, groups, size, n, keys = 16, 4, 128, 512, 2048
	for _, k := range []struct {
		name  string
		cache ggml.Type
		o     ggml.AttentionOptions
		sinks bool
	}{
		{name: "plain", cache: ggml.F32}, {name: "plain", cache: ggml.F16}, {name: "plain", cache: ggml.Q8_0}, {name: "plain", cache: ggml.Q4_0},
		{name: "softcap", cache: ggml.F16, o: ggml.AttentionOptions{Softcap: 50}},
		{name: "alibi", cache: ggml.F16, o: ggml.AttentionOptions{MaxBias: 8}},
		{name: "sinks", cache: ggml.F16, sinks: true},
		{name: "sinks", cache: ggml.Q8_0, sinks: true},
	} {
		b.Run(fmt.Sprintf("%s/%v", k.name, k.cache), func(b *testing.B) {
			cached := filled(b, k.cache, optest.Normal(1, size*keys*groups), size, keys, groups)
			mask := filled(b, ggml.F16, distances(keys, n, k.o.MaxBias != 0), keys, n)
			attend := func(l *nn.Lowering) func() time.Duration {
				compute := timedGraphOn(b, 1, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
					o := nn.CachedOperands{Q: leaf(size, n, heads), K: cached, V: cached, AttentionOptions: k.o}
					o.Mask, o.Scale = mask, 0.1
					if k.sinks {
						o.Sinks = leaf(heads)
					}
					return []*ggml.Tensor{nn.CachedAttention.Build(&nn.Tape{C: c, Lowering: l, Inputs: nn.NewInputs(c)}, o)}
				})
				return func() time.Duration {
					began := testutil.ProcessorTime()
					compute()
					return testutil.ProcessorTime() - began
				}
			}
			rounds, budget := testutil.BenchTime(b)
			testutil.Once(b, func() {
				turns := testutil.InTurn(rounds, budget, attend(need.Value(nn.CPU(ggml.F32))(b)), attend(nn.Stock()))
				b.ReportMetric(float64(turns.Median(0).Microseconds())/1e3, "ms")
				b.ReportMetric(turns.Ratio(1, 0), "×stock")
			})
		})
	}
}

// filled returns a tensor with its own memory.
func filled(b *testing.B, typ ggml.Type, values []float32, ne ...int64) *ggml.Tensor {
	c := ggml.NewContext()
	b.Cleanup(func() { c.Close() })
	x := c.NewTensor(typ, ne...)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
	b.Cleanup(func() { buffers.Close() })
	require.NoError(b, x.SetFloat32s(values))
	return x
}

// distances returns the mask [keys, n] of the last n tokens: −∞ for later keys, and 0 or minus the distance of others.
func distances(keys, n int, alibi bool) []float32 {
	mask := make([]float32, keys*n)
	for i := range mask {
		switch distance := i%keys - (keys - n + i/keys); {
		case distance > 0:
			mask[i] = float32(math.Inf(-1))
		case alibi:
			mask[i] = float32(distance)
		}
	}
	return mask
}
