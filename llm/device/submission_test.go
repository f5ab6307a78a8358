package device_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// The second graph sees what the first has written, on one device and on several. If cancelled before it begins, it
// does not run.
func TestComputeThen(t *testing.T) {
	for name, l := range map[string]layout.Layout{"CPU": {}, "far": {Devices: []*ggml.Device{remote(t)}}} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, device.Options{Layout: l})
			c, memory := ggml.NewContext(), layout.NewMemory(l)
			defer c.Close()
			defer memory.Close()
			x, y := c.NewTensor(ggml.F32, 2), c.NewTensor(ggml.F32, 2)
			memory.Add(0, "attn_q", x, y)
			require.NoError(t, memory.Allocate())
			require.NoError(t, ggml.Write(x, []float32{1, 2}))
			require.NoError(t, ggml.Write(y, []float32{0, 0}))
			work := func(g *ggml.Graph) device.Work {
				w := need.Value(e.NewWorkspace())(t)
				t.Cleanup(func() { w.Close() })
				require.NoError(t, w.Allocate(g))
				return device.Work{Workspace: w, Graph: g}
			}
			first, then := work(c.NewGraph(c.AddInPlace(x, x))), work(c.NewGraph(c.AddInPlace(y, x)))
			sums := func() []float32 {
				return need.Value(ggml.Read[float32](y))(t)
			}
			require.NoError(t, first.Workspace.ComputeThen(context.Background(), first.Graph, then))
			require.Equal(t, []float32{2, 4}, sums())
			require.NoError(t, first.Workspace.ComputeThen(context.Background(), first.Graph, then))
			require.Equal(t, []float32{6, 12}, sums())

			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			require.ErrorIs(t, first.Workspace.ComputeThen(ctx, first.Graph, then), context.Canceled)
			require.Equal(t, []float32{6, 12}, sums())
			for _, wrong := range []device.Work{{}, first, {Workspace: &device.Workspace{}}} {
				require.Error(t, first.Workspace.ComputeThen(context.Background(), first.Graph, wrong))
			}
			other := need.Value(newEngine(t, device.Options{}).NewWorkspace())(t)
			defer other.Close()
			require.EqualError(t, first.Workspace.ComputeThen(context.Background(), first.Graph, device.Work{Workspace: other, Graph: then.Graph}),
				"graph 2 must have a workspace of its own, of the same engine")
		})
	}
}
