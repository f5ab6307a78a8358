package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// noRanks are flags that set no rank of a target.
var noRanks = adapterFlags{
	R: 8, Init: "kaiming", LastLayers: -1, WQ: -1, WK: -1, WV: -1, WQKV: -1, WO: -1, FFNGate: -1, FFNUp: -1, FFNDown: -1, TokEmbd: -1, Out: -1,
}

func TestRanks(t *testing.T) {
	resolve := func(c arch.Config) *arch.Architecture {
		return need.Value(arch.Resolve(c))(t)
	}
	config := arch.Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	llama := resolve(config)
	config.Arch, config.FusedQKV, config.RoPE.Mode = "phi3", true, ggml.RoPENeoX
	fused := resolve(config)

	f := noRanks
	f.WK, f.WV, f.FFNDown, f.TokEmbd, f.Ranks = 0, 3, 5, 2, []string{"blk.0.*=7", "output=0"}
	got := need.Value(f.ranks(llama))(t)
	require.Equal(t, map[string]int{"attn_k": 0, "attn_v": 3, "ffn_down": 5, "token_embd": 2, "blk.0.*": 7, "output": 0}, got)
	_, err := f.ranks(fused)
	require.EqualError(t, err, "--rank-wk: the model has no matrix attn_k; its layers have attn_qkv, attn_output, ffn_up, ffn_down")

	f.WK, f.WV, f.WQKV = -1, -1, 6
	got = need.Value(f.ranks(fused))(t)
	require.Equal(t, map[string]int{"attn_qkv": 6, "ffn_down": 5, "token_embd": 2, "blk.0.*": 7, "output": 0}, got)
	_, err = f.ranks(llama)
	require.ErrorContains(t, err, "--rank-wqkv: the model has no matrix attn_qkv")

	for _, bad := range []adapterFlags{{AttNorm: 1}, {FFNNorm: 1}, {OutNorm: 1}} {
		_, err := bad.ranks(llama)
		require.ErrorContains(t, err, "llama.cpp ignores adapters of norms")
	}
	for _, bad := range []string{"attn_q", "attn_q=", "attn_q=-1", "attn_q=x"} {
		_, err := (&adapterFlags{Ranks: []string{bad}}).ranks(llama)
		require.EqualError(t, err, "--rank-of "+bad+": expected NAME=R, for example ffn_down=32, with R of 0 or more")
	}
}

// The scale of a matrix follows from its own rank.
func TestStrength(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	m := need.Value(model.Load(filepath.Join(folder, "base.gguf"), model.LoadOptions{}))(t)
	defer m.Close()
	for _, c := range []struct {
		r, wq  int
		alpha  float32
		rslora bool
		q, out float32 // scales of attn_q and ffn_up
	}{
		{8, -1, 0, false, 2, 2},
		{8, 64, 0, false, 2, 2},
		{0, 8, 0, false, 2, 0},
		{8, 16, 32, false, 2, 4}, // a given alpha applies to all
		{16, 64, 0, true, 2, 4},  // 16/√r
		{4, 16, 2, true, 0.5, 1},
	} {
		f := noRanks
		f.R, f.WQ, f.RSLoRA = c.r, c.wq, c.rslora
		if c.alpha != 0 {
			f.Alpha = &c.alpha
		}
		a := need.Value(f.adapter(m, 1))(t)
		defer a.Close()
		weights := a.WithScale(1)
		require.Equal(t, c.q, weights["blk.0.attn_q.weight"][0].Scale, "%+v", c)
		if c.out != 0 {
			require.Equal(t, c.out, weights["blk.1.ffn_up.weight"][0].Scale, "%+v", c)
		}
	}
}

// Flags of a new adapter are rejected when training continues an adapter; that adapter stays as it is.
func TestAdapterToGoOnFrom(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	m := need.Value(model.Load(filepath.Join(folder, "base.gguf"), model.LoadOptions{}))(t)
	defer m.Close()
	f := noRanks
	f.R, f.Alpha, f.Targets = 3, testutil.Ptr[float32](5), []string{"attn_q", "v_proj"}
	first := need.Value(f.adapter(m, 1))(t)
	defer first.Close()
	gguf, peft := filepath.Join(folder, "a.gguf"), filepath.Join(folder, "peft")
	require.NoError(t, first.Save(gguf, lora.SaveOptions{}))
	require.NoError(t, first.SavePEFT(peft, lora.PEFTOptions{}))
	for _, path := range []string{gguf, peft} {
		f := noRanks
		f.LoRAIn = path
		a := need.Value(f.adapter(m, 2))(t)
		defer a.Close()
		require.Len(t, a.Pairs(), 4)
		for i, p := range a.Pairs() {
			want := need.Value(ggml.Read[float32](first.Pairs()[i].A))(t)
			got := need.Value(ggml.Read[float32](p.A))(t)
			require.Equal(t, want, got)
			require.Equal(t, first.WithScale(1)[p.Base][0].Scale, a.WithScale(1)[p.Base][0].Scale)
		}
		given := map[string]bool{"rank-wk": true}
		require.EqualError(t, f.check(given),
			"--rank-wk describes a new adapter, but --lora-in continues "+path+" as it is; leave one of the two flags out")
		require.NoError(t, f.check(nil))
	}
}
