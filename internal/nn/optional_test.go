package nn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Of the optional ops those are found that a device has, and that compute what those in their place do.
func TestFindOptionalOps(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	compute := func(g *ggml.Graph) error { return b.Compute(context.Background(), g) }
	// otherwise makes the results of an op others.
	otherwise := func(op string, value float32) func(g *ggml.Graph) error {
		return func(g *ggml.Graph) error {
			err := compute(g)
			for node := range g.Nodes() {
				if node.Op() == op {
					err = errors.Join(err, node.Fill(value))
				}
			}
			return err
		}
	}
	nan := float32(0)
	nan /= nan
	for name, k := range map[string]struct {
		supports func(*ggml.Tensor) bool
		compute  func(*ggml.Graph) error
		want     string
	}{
		"all":                 {b.Device().SupportsOp, compute, "none"}, // which the CPU says of functions of this process, too
		"every op":            {isOp, compute, "silu_back, rms_norm_back, soft_max_back, rope_back, out_prod"},
		"lacks one":           {lacks("soft_max_back"), compute, "silu_back, rms_norm_back, rope_back, out_prod"},
		"lacks in place":      {lacks("sum_rows"), compute, "silu_back, rope_back, out_prod"}, // there is nothing to compare with
		"lacks all":           {lacks("silu_back", "rms_norm_back", "soft_max_back", "rope_back", "out_prod"), compute, "none"},
		"one is wrong":        {isOp, otherwise("rms_norm_back", 1), "silu_back, soft_max_back, rope_back, out_prod"},
		"one is not a number": {isOp, otherwise("silu_back", nan), "rms_norm_back, soft_max_back, rope_back, out_prod"},
	} {
		t.Run(name, func(t *testing.T) {
			found := need.Value(nn.FindOptionalOps(ggml.CPUBufferType(), k.supports, k.compute))(t)
			require.Equal(t, k.want, found.String())
		})
	}
	broken := errors.New("the device is lost")
	_, err := nn.FindOptionalOps(ggml.CPUBufferType(), isOp, func(*ggml.Graph) error { return broken })
	require.ErrorIs(t, err, broken)
}

// isOp reports whether a node is no function of this process.
func isOp(x *ggml.Tensor) bool { return lacks()(x) }

func lacks(ops ...string) func(x *ggml.Tensor) bool {
	ops = append(ops, "custom")
	return func(x *ggml.Tensor) bool {
		for _, op := range ops {
			if x.Op() == op {
				return false
			}
		}
		return true
	}
}

// Blocks are smaller with more heads at a time, and if the scores of larger ones would take much
// memory, which grows with the length of sequences alone.
func TestQueryBlock(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	for _, k := range []struct{ heads, n, batch, window, want int64 }{
		{32, 512, 1, 0, 512}, {32, 512, 8, 0, 128}, {32, 512, 2, 0, 256}, {32, 4096, 1, 0, 512}, {32, 4096, 4, 0, 128},
		{32, 16384, 1, 0, 128}, {32, 1 << 17, 1, 0, 128}, {32, 16384, 1, 1024, 512}, {1, 1, 1, 0, 512},
	} {
		a := nn.AttentionOperands{Q: c.NewTensor(ggml.F32, 64, k.heads, k.n, k.batch), Window: k.window}
		require.Equal(t, k.want, nn.QueryBlock(a), k)
		a.Bidirectional = true
		require.EqualValues(t, 512, nn.QueryBlock(a), k)
	}
}
