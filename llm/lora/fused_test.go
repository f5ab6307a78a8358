package lora_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// fusedConfig is a model whose queries, keys and values are one matrix, as are its gate
// and up matrices.
func fusedConfig() arch.Config {
	c := tinyConfig(false)
	c.Arch, c.FusedQKV, c.RoPE.Mode = "phi3", true, ggml.RoPENeoX
	return c
}

// Targets name the model's own matrices: fused ones by their own names.
func TestTargetsOfFusedMatrices(t *testing.T) {
	m := newModel(t, fusedConfig(), t.Cleanup)
	targets := []string{"attn_qkv", "attn_output", "ffn_up", "ffn_down", "token_embd", "output"}
	require.Equal(t, targets, lora.Targets(m.Architecture()))
	shapes := map[string][][]int64{}
	for _, p := range newAdapter(t, m, lora.Options{Rank: 4}).Pairs() {
		shapes[p.Base] = [][]int64{p.A.Shape(), p.B.Shape()}
	}
	require.Len(t, shapes, 2*4)
	require.Equal(t, [][]int64{{64, 4}, {4, 64 + 2*32}}, shapes["blk.0.attn_qkv.weight"])
	require.Equal(t, [][]int64{{64, 4}, {4, 2 * 96}}, shapes["blk.1.ffn_up.weight"])

	_, err := lora.New(m, lora.Options{Rank: 4, Ranks: map[string]int{"attn_q": 8}})
	require.EqualError(t, err, `a new adapter: there is no target "attn_q"; the targets are attn_qkv, attn_output, ffn_up, ffn_down, token_embd, output`)
	f := goodFile()
	f.keys["general.architecture"] = "phi3"
	_, err = lora.Load(f.write(t), m)
	require.ErrorContains(t, err, "blk.0.attn_q.weight: the model has no such tensor; it can be adapted in attn_qkv, attn_output, ffn_up, ffn_down, token_embd, output")
}

// Adapters of fused matrices keep their meaning in a file and when they are merged.
func TestAdaptersOfFusedMatrices(t *testing.T) {
	m := newModel(t, fusedConfig(), t.Cleanup)
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 6, Ranks: map[string]int{"token_embd": 3, "output": 2}})
	want := losses(t, m, a.WithScale(0.5))
	require.Greater(t, refmath.MaxAbsDiff(losses(t, m, nil), want), 1e-3)

	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	b := load(t, path, m)
	require.Equal(t, want, losses(t, m, b.WithScale(0.5)))

	merged, _ := mergeTo(t, m, []lora.Scaled{{Adapter: b, Scale: 0.5}}, lora.MergeOptions{})
	require.Less(t, refmath.MaxAbsDiff(losses(t, merged, nil), want), 5e-5)
}

// withScales writes a model with factors of products.
func withScales(t *testing.T, m *model.Model, scales map[string]float32) *model.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scales.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	require.NoError(t, ggml.EditGGUF(path, func(g *ggml.GGUF) error {
		for name, scale := range scales {
			info := ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: []int64{1}}
			if err := g.AddTensorFrom(info, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, scale) }); err != nil {
				return err
			}
		}
		return nil
	}))
	scaled := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { scaled.Close() })
	return scaled
}

// Merging divides by factors of W·x; factors of the feed-forward network's whole products act on adapters, too.
func TestMergeWithScales(t *testing.T) {
	m := withScales(t, fileModel(t, false, ggml.F32), map[string]float32{
		"blk.0.attn_q.scale": 0.25, "blk.0.attn_v.scale": -3, "blk.1.attn_output.scale": 2, "blk.0.ffn_up.scale": 0.5, "blk.1.ffn_down.scale": 1.5,
	})
	adapters := []lora.Scaled{{trained(t, m, everything(m, 4, 1)), 0.75}, {trained(t, m, everything(m, 2, 2)), -0.5}}
	want := losses(t, m, join(adapters))
	merged, _ := mergeTo(t, m, adapters, lora.MergeOptions{})
	require.Less(t, refmath.MaxAbsDiff(losses(t, merged, nil), want), 5e-5)
	require.Greater(t, refmath.MaxAbsDiff(losses(t, m, nil), want), 0.05)
	require.Equal(t, []float32{0.25}, floats(t, merged.Weight("blk.0.attn_q.scale")))
}

// Layers that share a matrix may have different factors, which no merged matrix can express.
func TestMergeWithScalesOfLayers(t *testing.T) {
	equal := map[string]float32{}
	for layer := range 12 {
		equal[fmt.Sprintf("blk.%d.attn_q.scale", layer)] = 2
	}
	file := llmtest.ArchFile(t, "hrm_text", ggml.F32)
	load := func(scales map[string]float32) *model.Model {
		m := need.Value(model.Load(file, model.LoadOptions{}))(t)
		t.Cleanup(func() { m.Close() })
		return withScales(t, m, scales)
	}
	m := load(equal)
	adapters := []lora.Scaled{{trained(t, m, lora.Options{Rank: 4, Alpha: 8}), 0.75}}
	want := losses(t, m, join(adapters))
	merged, _ := mergeTo(t, m, adapters, lora.MergeOptions{})
	require.Less(t, refmath.MaxAbsDiff(losses(t, merged, nil), want), 5e-5)

	equal["blk.6.attn_q.scale"] = 3 // of the low stack, as block 0
	m = load(equal)
	path := filepath.Join(t.TempDir(), "merged.gguf")
	err := lora.MergeTo(context.Background(), path, m, []lora.Scaled{{trained(t, m, lora.Options{Rank: 4}), 1}}, lora.MergeOptions{})
	require.EqualError(t, err, "blk.0.attn_q.weight: its adapter cannot be merged, because the model adds it after multiplying by blk.0.attn_q.scale and blk.6.attn_q.scale, which differ; leave this matrix out")
}

// With a factor of 0 no merged weight equals base and adapter.
func TestMergeWithScaleZero(t *testing.T) {
	m := withScales(t, fileModel(t, false, ggml.F32), map[string]float32{"blk.1.attn_k.scale": 0, "blk.0.ffn_up.scale": 0})
	path := filepath.Join(t.TempDir(), "merged.gguf")
	merge := func(targets ...string) error {
		a := trained(t, m, lora.Options{Rank: 2, Targets: targets})
		return lora.MergeTo(context.Background(), path, m, []lora.Scaled{{a, 1}}, lora.MergeOptions{})
	}
	require.NoError(t, merge("attn_q", "ffn_up"))
	require.EqualError(t, merge("attn_k"), "blk.1.attn_k.weight: its adapter cannot be merged, because the model adds it after multiplying by blk.1.attn_k.scale, which is 0; leave this matrix out")
}
