package training

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/parallel"
)

func TestSlowest(t *testing.T) {
	processes := []parallel.Process{{Rank: 0, Host: "a", PID: 1}, {Rank: 1, Host: "b", PID: 2}}
	require.Equal(t, "; the others wait for rank 1 on b (process 2), which itself waited 3.1 ms", slowest(processes, []float64{412, 3.1}))
	require.Empty(t, slowest(processes, []float64{4, 3}))
	require.Empty(t, slowest(processes, []float64{1, 1}))
}
