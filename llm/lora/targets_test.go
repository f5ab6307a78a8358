package lora_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// ranksOf are the ranks of the pairs that options make, as "0.attn_q:4" in the order of
// the tensors.
func ranksOf(t *testing.T, m *model.Model, o lora.Options) string {
	t.Helper()
	var list []string
	for _, p := range newAdapter(t, m, o).Pairs() {
		name := strings.TrimPrefix(strings.TrimSuffix(p.Base, ".weight"), "blk.")
		list = append(list, fmt.Sprintf("%s:%d", name, p.Rank()))
	}
	return strings.Join(list, " ")
}

// A layer's linear layers of rank r, by their names in the order of computation.
func layer(i, r int) string {
	var list []string
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		list = append(list, fmt.Sprintf("%d.%s:%d", i, name, r))
	}
	return strings.Join(list, " ")
}

func TestTargetsByName(t *testing.T) {
	m := tinyModel(t, false)
	type ranks = map[string]int
	for name, k := range map[string]struct {
		options lora.Options
		want    string
	}{
		"nothing named":       {lora.Options{Rank: 2}, layer(0, 2) + " " + layer(1, 2)},
		"all-linear":          {lora.Options{Rank: 2, Targets: []string{"all-linear"}}, layer(0, 2) + " " + layer(1, 2)},
		"with the output":     {lora.Options{Rank: 2, Targets: []string{"all-linear", "lm_head"}}, layer(0, 2) + " " + layer(1, 2) + " output:2"},
		"targets":             {lora.Options{Rank: 2, Targets: []string{"attn_v", "token_embd"}}, "token_embd:2 0.attn_v:2 1.attn_v:2"},
		"PEFT's modules":      {lora.Options{Rank: 2, Targets: []string{"q_proj", "down_proj", "embed_tokens"}}, "token_embd:2 0.attn_q:2 0.ffn_down:2 1.attn_q:2 1.ffn_down:2"},
		"paths of modules":    {lora.Options{Rank: 2, Targets: []string{"self_attn.k_proj", "model.layers.1.mlp.up_proj"}}, "0.attn_k:2 1.attn_k:2 1.ffn_up:2"},
		"a tensor":            {lora.Options{Rank: 2, Targets: []string{"blk.1.attn_q.weight", "blk.0.attn_k"}}, "0.attn_k:2 1.attn_q:2"},
		"patterns":            {lora.Options{Rank: 2, Targets: []string{"blk.*.attn_[kv].weight", "blk.[1-9].ffn_g*"}}, "0.attn_k:2 0.attn_v:2 1.attn_k:2 1.attn_v:2 1.ffn_gate:2"},
		"all patterns":        {lora.Options{Rank: 2, Targets: []string{"*"}}, "token_embd:2 " + layer(0, 2) + " " + layer(1, 2) + " output:2"},
		"the last layer":      {lora.Options{Rank: 2, LastLayers: testutil.Ptr(1)}, layer(1, 2)},
		"all layers":          {lora.Options{Rank: 2, LastLayers: testutil.Ptr(2)}, layer(0, 2) + " " + layer(1, 2)},
		"no layer":            {lora.Options{Rank: 2, LastLayers: testutil.Ptr(0), Targets: []string{"q_proj", "output"}}, "output:2"},
		"outside of layers":   {lora.Options{Rank: 2, LastLayers: testutil.Ptr(1), Targets: []string{"q_proj", "output"}}, "1.attn_q:2 output:2"},
		"ranks by name":       {lora.Options{Rank: 2, Targets: []string{"attn_q", "attn_k"}, Ranks: ranks{"k_proj": 3}}, "0.attn_q:2 0.attn_k:3 1.attn_q:2 1.attn_k:3"},
		"ranks choose":        {lora.Options{Ranks: ranks{"blk.1.attn_*": 3, "output": 1}}, "1.attn_q:3 1.attn_k:3 1.attn_v:3 1.attn_output:3 output:1"},
		"the specific counts": {lora.Options{Ranks: ranks{"all-linear": 2, "blk.0.*": 0, "attn_q": 3, "blk.1.attn_q": 4, "blk.1.*": 5, "ffn_up": 0}}, "0.attn_q:3 1.attn_q:4 1.attn_k:5 1.attn_v:5 1.attn_output:5 1.ffn_gate:5 1.ffn_down:5"},
		"all the same":        {lora.Options{Rank: 1, Targets: []string{"attn_q"}, Ranks: ranks{"attn_q": 3, "q_proj": 3}}, "0.attn_q:3 1.attn_q:3"},
		"narrowed":            {lora.Options{Rank: 1, Targets: []string{"attn_q"}, LastLayers: testutil.Ptr(1), Ranks: ranks{"blk.*.attn_*": 3}}, "1.attn_q:3"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, k.want, ranksOf(t, m, k.options)) })
	}
	tied := tinyModel(t, true)
	require.Equal(t, "token_embd:2 "+layer(0, 2)+" "+layer(1, 2), ranksOf(t, tied, lora.Options{Rank: 2, Targets: []string{"*"}}))
	fused := newModel(t, fusedConfig(), t.Cleanup)
	require.Equal(t, "0.attn_qkv:2 0.ffn_up:2 1.attn_qkv:2 1.ffn_up:2", ranksOf(t, fused, lora.Options{Rank: 2, Targets: []string{"qkv_proj", "gate_up_proj"}}))
}

func TestTargetFaults(t *testing.T) {
	const linears = "attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down"
	type ranks = map[string]int
	m := tinyModel(t, false)
	for want, o := range map[string]lora.Options{
		`there is no target "attn_x"; the targets are ` + linears + `, token_embd, output`: {
			Rank: 1, Targets: []string{"attn_q", "attn_x"},
		},
		`there is no target ""; the targets are ` + linears + `, token_embd, output`: {Rank: 1, Targets: []string{""}},
		`"blk.2.*" matches no matrix; the model has blk.0 to blk.1, each with ` + linears + `, and token_embd and output`: {
			Rank: 1, Ranks: ranks{"blk.2.*": 3},
		},
		`"mlp.q_proj" matches no matrix; the model has blk.0 to blk.1, each with ` + linears + `, and token_embd and output`: {
			Rank: 1, Targets: []string{"mlp.q_proj"},
		},
		`"*_norm.weight" matches no matrix; the model has blk.0 to blk.1, each with ` + linears + `, and token_embd and output`: {
			Rank: 1, Targets: []string{"*_norm.weight"},
		},
		`the pattern "blk.[0-1" is malformed; each "[" needs a "]"`:                                                 {Rank: 1, Targets: []string{"blk.[0-1"}},
		`"attn_q" and "q_proj" are equally specific, but give blk.0.attn_q.weight the ranks 3 and 4; leave one out`: {Ranks: ranks{"attn_q": 3, "q_proj": 4}},
		`"blk.0.*" has a rank, but is not among the targets`:                                                        {Rank: 1, LastLayers: testutil.Ptr(1), Ranks: ranks{"blk.0.*": 2}},
		`the last 3 layers cannot be adapted; the model has 2`:                                                      {Rank: 1, LastLayers: testutil.Ptr(3)},
		`the last -1 layers cannot be adapted; the model has 2`:                                                     {Rank: 1, LastLayers: testutil.Ptr(-1)},
		`a rank-stabilized adapter needs an alpha; set it, for example to the rank`:                                 {Rank: 1, RankStabilized: true},
		`both an alpha, 1, and a factor, 2, are set, but the factor replaces alpha; leave one out`:                  {Rank: 1, RankStabilized: true, Alpha: 1, Factor: 2},
		`the rank is -1; it must be 0 to 65536; "attn_q" has rank -2; it must be 0 to 65536`:                        {Rank: -1, Ranks: ranks{"attn_q": -2}},
	} {
		_, err := lora.New(m, o)
		require.EqualError(t, err, "a new adapter: "+want)
	}
	for _, name := range []string{"output", "lm_head"} {
		_, err := lora.New(tinyModel(t, true), lora.Options{Rank: 1, Targets: []string{name}})
		require.EqualError(t, err, `a new adapter: the target "output" is missing: this model uses its token embedding as the output`)
	}
}

// rsLoRA counts alpha/√r whatever the rank: in the graph, and in the file, where stock
// llama.cpp computes alpha/r with one alpha for all.
func TestRankStabilized(t *testing.T) {
	const alpha = 3
	m := tinyModel(t, false)
	for name, ranks := range map[string]map[string]int{
		"one rank": {"all-linear": 5}, "mixed": {"attn_q": 64, "attn_k": 8, "ffn_up": 3, "token_embd": 2, "blk.1.attn_q": 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := trained(t, m, lora.Options{Ranks: ranks, Alpha: alpha, RankStabilized: true})
			path := filepath.Join(t.TempDir(), "adapter.gguf")
			require.NoError(t, a.Save(path, lora.SaveOptions{}))
			b := load(t, path, m)
			require.Len(t, b.Pairs(), len(a.Pairs()))
			for i, p := range a.Pairs() {
				q, shape := b.Pairs()[i], m.Weight(p.Base).Shape()
				require.Equal(t, p.Base, q.Base)
				require.Zero(t, q.Alpha, "a file has one alpha")
				factor, inFile := alpha/math.Sqrt(float64(p.Rank())), float64(b.Alpha)/float64(q.Rank())
				require.InEpsilon(t, 0.5*factor, a.WithScale(0.5)[p.Base][0].Scale, 1e-6, p.Base)
				want, got := change(t, p, shape, factor), change(t, q, shape, inFile)
				require.Less(t, refmath.RelativeError(got, want), 1e-6, p.Base)
			}
		})
	}
}
