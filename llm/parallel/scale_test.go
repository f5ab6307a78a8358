package parallel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/parallel"
)

func TestAllReduce(t *testing.T) {
	n := parallel.Network{Bandwidth: 125e6 / 0.94, Latency: time.Millisecond}
	require.Zero(t, n.AllReduce(50e6, 1))
	require.InDelta(t, 0.406, n.AllReduce(50e6, 2).Seconds(), 1e-6, "each sends all of it in two messages, and each crosses the network three times")
	require.InDelta(t, 2*50e6/125e6*63/64+126*3e-3, n.AllReduce(50e6, 64).Seconds(), 1e-6)
}

func TestWorkload(t *testing.T) {
	w := parallel.Workload{Step: 32 * time.Second, Samples: 8, Batch: 2, Gradients: 50e6, Hidden: 4 * 4096 * 4096}
	fast := parallel.Network{Bandwidth: 1e15}
	for machines, want := range map[int]time.Duration{1: 32 * time.Second, 2: 16 * time.Second, 3: 12 * time.Second, 8: 4 * time.Second, 64: 4 * time.Second} {
		require.InDelta(t, want.Seconds(), w.Data(machines, fast).Seconds(), 1e-3, "%d machines", machines)
	}
	slow := parallel.Network{Bandwidth: 125e6 / 0.94, Latency: time.Millisecond}
	require.InDelta(t, 16+0.4/4+0.006+0.002, w.Data(2, slow).Seconds(), 1e-6, "a quarter of the sum is not beside the backward pass")
	slow.Load = 0.5
	require.InDelta(t, 16+0.2+0.2/4+0.006+0.002, w.Data(2, slow).Seconds(), 1e-6, "what it takes of the processors is not")
	slow.Load = 1
	require.InDelta(t, 16+0.4+0.006+0.002, w.Data(2, slow).Seconds(), 1e-6, "nothing is")
	slow.Load, w.Step = 0, 0
	require.InDelta(t, 0.4+0.006+0.002, w.Data(2, slow).Seconds(), 1e-6, "there is nothing that it could be beside")
	require.Equal(t, w.Step, w.Layers(1, slow))
	require.InDelta(t, 2*w.Hidden/125e6+8e-3, w.Layers(2, slow).Seconds(), 1e-3, "there and back, for each of four batches")
}
