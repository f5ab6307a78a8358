package ggufcheck

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	parser "github.com/gpustack/gguf-parser-go"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

func newModel(t *testing.T, c arch.Config) *model.Model {
	c.Arch, c.Name, c.Heads, c.KVHeads, c.RMSEps = "llama", "Tiny", 4, 2, 1e-5
	c.HeadSize = c.Embd / c.Heads
	c.RoPE = ggml.RoPE{Dims: c.HeadSize, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: c.Context, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	m := need.Value(model.New(c, nil, 7))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func floats(t *testing.T, x *ggml.Tensor) []float32 {
	return need.Value(x.Float32s())(t)
}

// An adapter that another program wrote, in the form that stock llama.cpp accepts, is loaded as the reader
// reads it.
func TestLoadedAdapter(t *testing.T) {
	path := filepath.Join("..", "..", "llm", "lora", "testdata", "tiny-spm-lora-f32.gguf")
	a := need.Value(lora.Load(path, newModel(t, arch.Config{Vocab: 571, Context: 512, Embd: 128, FF: 352, Layers: 3})))(t)
	defer a.Close()
	file := need.Value(parser.ParseGGUFFile(path))(t)
	alpha, ok := file.Header.MetadataKV.Get("adapter.lora.alpha")
	require.True(t, ok)
	require.Equal(t, alpha.ValueFloat32(), a.Alpha)
	raw := need.Value(os.ReadFile(path))(t)
	values := func(name string) []float32 {
		info, ok := file.TensorInfos.Get(name)
		require.True(t, ok, name)
		list := make([]float32, info.Elements())
		for i := range list {
			at := uint64(file.TensorDataStartOffset) + info.Offset + 4*uint64(i)
			list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[at:]))
		}
		return list
	}
	require.Len(t, a.Pairs(), 3*7)
	for _, p := range a.Pairs() {
		require.Equal(t, values(p.Base+".lora_a"), floats(t, p.A))
		require.Equal(t, values(p.Base+".lora_b"), floats(t, p.B))
	}
}

// The reader finds what llama.cpp requires of an adapter.
func TestSavedAdapter(t *testing.T) {
	m := newModel(t, arch.Config{Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2})
	a := need.Value(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Ranks: map[string]int{"token_embd": 2}}))(t)
	defer a.Close()
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16} {
		path := filepath.Join(t.TempDir(), "adapter.gguf")
		require.NoError(t, a.Save(path, lora.SaveOptions{Type: typ, Keys: map[string]any{"note": "x"}}))
		file := need.Value(parser.ParseGGUFFile(path))(t)
		got := map[string]any{}
		for _, kv := range file.Header.MetadataKV {
			got[kv.Key] = kv.Value
		}
		require.Equal(t, map[string]any{
			"general.type": "adapter", "general.architecture": "llama", "general.name": "Tiny LoRA",
			"general.base_model.count": uint32(1), "general.base_model.0.name": "Tiny",
			"adapter.type": "lora", "adapter.lora.alpha": float32(8), "note": "x",
		}, got)
		require.Len(t, file.TensorInfos, 2*(2*7+1))
		for _, p := range a.Pairs() {
			for _, x := range []*ggml.Tensor{p.A, p.B} {
				info, ok := file.TensorInfos.Get(x.Name())
				require.True(t, ok, x.Name())
				require.EqualValues(t, typ, info.Type)
				require.Equal(t, []uint64{uint64(x.Dim(0)), uint64(x.Dim(1))}, info.Dimensions)
			}
		}
	}
}
