package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
)

// 8 billion parameters, of which half a billion are only looked up.
func TestAdapterFLOPs(t *testing.T) {
	c := benchmodel.Huge()
	require.InDelta(t, 4*7.5e9, c.AdapterFLOPs(0), 0.1e9)
	require.InDelta(t, 6*512*4096*32, c.AdapterFLOPs(512)-c.AdapterFLOPs(0), 1)
}

// A model needs neither heads nor a feed-forward network where no part has them; a part that has them says so.
func TestLayersOfOtherParts(t *testing.T) {
	c := benchmodel.Small()
	c.Heads, c.KVHeads, c.HeadSize, c.FF, c.RoPE.Dims = 0, 0, 0, 0, 0
	convolution := arch.Residual{Before: "attn_norm", Part: arch.ShortConv{Width: c.Embd, Length: 3}}
	a := need.Value(arch.New(c, []arch.Layer{{convolution}}))(t)
	require.Equal(t, []string{"shortconv.in_proj", "shortconv.out_proj"}, a.Linears())
	_, err := arch.New(c, []arch.Layer{{convolution}, {{Part: arch.Parallel{convolution, {Part: arch.Attention{Heads: 2, KVHeads: 3, HeadSize: 8}}}}}, {{Part: arch.FeedForward{}}}})
	require.EqualError(t, err, "unsupported model: llama.attention.head_count_kv: 2 heads cannot share 3 KV heads; "+
		"llama.rope.dimension_count: RoPE cannot rotate 0 elements of a head of 8; llama.feed_forward_length is 0")
}
