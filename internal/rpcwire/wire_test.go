package rpcwire

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestGraph(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := make([]byte, TensorSize)
	for i := range p {
		p[i] = byte(r.IntN(256))
	}
	var x Tensor
	x.Decode(p)
	require.Equal(t, p, x.Append(nil), "every byte has a field")
	g := &Graph{Device: 3, UID: 1 << 60, Nodes: []uint64{7, 8}, Tensors: []Tensor{x, {ID: 8, Uses: -1}}}
	body := g.Append(nil)
	got := need.Value(DecodeGraph(body))(t)
	require.Equal(t, g, got)
	for n := range body {
		_, err := DecodeGraph(body[:n])
		require.Error(t, err, "%d bytes", n)
	}
	_, err := DecodeGraph(append(body, 0))
	require.Error(t, err)
}

func TestCheckSize(t *testing.T) {
	for _, c := range []struct {
		command Command
		size    uint64
		says    string
	}{
		{AllocBuffer, 12, ""},
		{AllocBuffer, 13, "alloc_buffer of 13 bytes; it has 12 to 12"},
		{SetTensor, 305 + 100, ""},
		{SetTensor, 305 + 101, "set_tensor of 406 bytes; it has 305 to 405"},
		{SetTensor, math.MaxUint64, "set_tensor of 18446744073709551615 bytes"},
		{GraphCompute, 19, "graph_compute of 19 bytes"},
		{GraphCompute, 1 << 40, "graph_compute of 1099511627776 bytes"},
		{CommFree + 1, 0, "there is no command 23"},
	} {
		if err := c.command.CheckSize(c.size, 100); c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}
}
