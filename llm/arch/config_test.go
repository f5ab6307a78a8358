package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/benchmodel"
)

// 8 billion parameters, of which half a billion are only looked up.
func TestAdapterFLOPs(t *testing.T) {
	c := benchmodel.Huge()
	require.InDelta(t, 4*7.5e9, c.AdapterFLOPs(0), 0.1e9)
	require.InDelta(t, 6*512*4096*32, c.AdapterFLOPs(512)-c.AdapterFLOPs(0), 1)
}
