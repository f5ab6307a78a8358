package gpucost_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/gpucost"
)

// The kinds and costs of a layer with an adapter, one node at a time.
func TestOf(t *testing.T) {
	const n, in, out, rank = 16, 64, 32, 4
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.BF16, in, out)
	x, a, b := c.NewTensor(ggml.F32, in, n), c.NewTensor(ggml.F32, in, rank), c.NewTensor(ggml.F32, rank, out)
	product := c.MulMat(w, x)
	low := c.MulMat(a, x)
	high := c.MulMat(b, low)
	sum := c.Add(product, high)
	transposed := c.Cont(c.Transpose(w))
	back := c.MulMat(transposed, sum)
	norm := c.RMSNorm(back, 1e-5)
	heads := c.Cont(c.Permute(c.Reshape(norm, 8, 8, n), [4]int{0, 2, 1, 3}))
	first := c.NewGraph(heads)
	update := c.NewGraph(c.ScaleInPlace(a, 2))
	require.NoError(t, c.Err())

	work := gpucost.Of(gpucost.Shape{Vocab: 1000, Heads: 8, KVHeads: 8, Rank: rank}, first, update)
	type cost struct {
		kind  gpucost.Kind
		op    string
		flops float64
		bf16  bool
		bytes int64
	}
	var got []cost
	for _, w := range work {
		got = append(got, cost{w.Kind, w.Op, w.FLOPs, w.BF16, w.Bytes})
	}
	require.ElementsMatch(t, []cost{
		{gpucost.Casts, "cpy", 0, false, 6 * in * n}, // the plugin's own
		{gpucost.Products, "mul_mat", 2 * in * out * n, true, 2*in*out + 2*in*n + 4*out*n},
		{gpucost.Adapters, "mul_mat", 2 * in * rank * n, false, 4 * (in*rank + in*n + rank*n)},
		{gpucost.Adapters, "mul_mat", 2 * rank * out * n, false, 4 * (rank*out + rank*n + out*n)},
		{gpucost.Adapters, "add", 0, false, 3 * 4 * out * n},
		{gpucost.Weights, "cont", 0, false, 2 * 2 * in * out},
		{gpucost.Casts, "cpy", 0, false, 6 * out * n},
		{gpucost.Products, "mul_mat", 2 * in * out * n, true, 2*in*out + 2*out*n + 4*in*n},
		{gpucost.Elementwise, "rms_norm", 0, false, 2 * 4 * in * n},
		{gpucost.Attention, "cont", 0, false, 2 * 4 * in * n},
		{gpucost.Update, "scale", 0, false, 2 * 4 * in * rank},
	}, got)
}

func TestPredict(t *testing.T) {
	card := gpucost.Card{BF16: 100, TF32: 50, Bandwidth: 10, Launch: 3 * time.Second, Gap: time.Second}
	work := []gpucost.Work{
		{Kind: gpucost.Products, FLOPs: 800, BF16: true, Bytes: 10}, // bounded by the operations
		{Kind: gpucost.Products, FLOPs: 8, Bytes: 40},               // by what moves
		{Kind: gpucost.Loss, Bytes: 20},
	}
	p := card.Predict(work, 2)
	require.InDelta(t, 14, p.ByKind[gpucost.Products], 1e-9)
	require.InDelta(t, 2, p.ByKind[gpucost.Loss], 1e-9)
	require.InDelta(t, 2, p.Launches, 1e-9, "hidden but for the gaps")
	require.InDelta(t, 18, p.Seconds(), 1e-9)
	require.InDelta(t, 300-16, card.Predict(work, 100).Launches, 1e-9, "the host is slower")

	ops := card.ByOp(append(work, work[2]))
	require.Len(t, ops, 3)
	require.Equal(t, 2, ops[2].Nodes+ops[1].Nodes+ops[0].Nodes-2)
}
