package lora_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/safetensors"
)

// Saving for PEFT and loading gives the same adapter, for all targets and each architecture with special modules,
// including fused matrices that transformers separates.
func TestPEFTRoundTrip(t *testing.T) {
	for _, name := range llmtest.TestedArchitectures() {
		for _, fused := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " fused ", fused), func(t *testing.T) {
				c := llmtest.ArchModel(t, name, ggml.F32).Config()
				c.FusedQKV = fused
				if hasFusedModules(t, c) {
					t.Skip("parts of modules have different A: see TestPEFTOfPartsAlone")
				}
				m := newModel(t, c, t.Cleanup)
				testPEFTRoundTrip(t, m)
			})
		}
	}
}

// hasFusedModules reports whether transformers has different matrices in one module.
func hasFusedModules(t *testing.T, c arch.Config) bool {
	a := need.Value(arch.Resolve(c))(t)
	of := map[string]string{} // matrices by module
	for _, w := range a.Weights() {
		for _, r := range w.Rows {
			if r.Module != "" && of[r.Module] != "" && of[r.Module] != w.Name {
				return true
			}
			of[r.Module] = w.Name
		}
	}
	return false
}

func testPEFTRoundTrip(t *testing.T, m *model.Model) {
	root := t.TempDir()
	unwritten := map[string]bool{"output": m.Config().Tied}
	for _, w := range m.Architecture().Weights() {
		kind := string(w.Kind)
		unwritten[kind] = unwritten[kind] || w.Role == arch.ExpertMatrices || slices.ContainsFunc(w.Rows, func(r arch.Rows) bool { return r.Module == "" })
	}
	targets := slices.DeleteFunc(lora.Targets(m.Architecture()), func(name string) bool { return unwritten[name] })
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		if runs++; runs > 8 {
			return
		}
		o := lora.Options{Ranks: rapid.MapOfN(rapid.SampledFrom(targets), rapid.IntRange(1, 9), 1, len(targets)).Draw(t, "ranks"), Seed: uint64(runs)}
		if rapid.Bool().Draw(t, "factor") {
			o.Factor = rapid.Float32Range(0.01, 100).Draw(t, "factor")
		} else {
			o.Alpha = rapid.Float32Range(0, 100).Draw(t, "alpha")
		}
		a := need.Value(lora.New(m, o))(t)
		defer a.Close()
		fillB(t, a, o.Seed)
		folder := filepath.Join(root, fmt.Sprint(runs))
		require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{Root: rapid.SampledFrom([]string{"", "model.language_model"}).Draw(t, "root")}))
		b := load(t, folder, m)
		requireEqual(t, a, b)
	})
}

func fillB(t require.TestingT, a *lora.Adapter, seed uint64) {
	for i, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for j := range values {
			values[j] = float32(i+1) + float32(j)/float32(len(values)) + float32(seed)
		}
		require.NoError(t, ggml.Write(p.B, values))
	}
}

// requireEqual checks that the pairs and their scales are equal.
func requireEqual(t require.TestingT, a, b *lora.Adapter) {
	require.Equal(t, a.Arch, b.Arch)
	require.Equal(t, len(a.Pairs()), len(b.Pairs()))
	for i, p := range a.Pairs() {
		q := b.Pairs()[i]
		require.Equal(t, p.Base, q.Base)
		require.Equal(t, p.A.Shape(), q.A.Shape(), p.Base)
		require.Equal(t, floats(t, p.A), floats(t, q.A), p.Base)
		require.Equal(t, floats(t, p.B), floats(t, q.B), p.Base)
		require.Equal(t, a.WithScale(1)[p.Base][0].Scale, b.WithScale(1)[p.Base][0].Scale, p.Base)
	}
}

// Pairs of matrices that transformers fuses become one pair of the summed rank, with the same effect; the pair of a
// module that the file splits goes to each part.
func TestPEFTOfPartsAlone(t *testing.T) {
	c := llmtest.ArchModel(t, "phi3", ggml.F32).Config()
	c.FusedQKV = false
	m := newModel(t, c, t.Cleanup)
	for _, o := range []lora.Options{
		{Ranks: map[string]int{"attn_q": 2, "attn_k": 3, "attn_v": 4}, Alpha: 8}, // of different strengths
		{Ranks: map[string]int{"attn_q": 2, "attn_v": 4}, Factor: 2, Targets: []string{"attn_q", "attn_v"}},
	} {
		a := trained(t, m, o)
		folder := t.TempDir()
		require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
		config := readConfig(t, folder)
		require.Equal(t, []any{"qkv_proj"}, config["target_modules"])
		b := load(t, folder, m)
		require.Len(t, b.Pairs(), 3*c.Layers, "queries, keys and values")
		require.InDeltaSlice(t, losses(t, m, a.WithScale(1)), losses(t, m, b.WithScale(1)), 1e-5)
		require.NotEqual(t, losses(t, m, a.WithScale(1)), losses(t, m, nil))
	}
}

func readConfig(t *testing.T, folder string) (config map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(content(t, filepath.Join(folder, "adapter_config.json")), &config))
	return config
}

// Factors of modules whose rows share a matrix in the file become blocks: the product of the blocks equals the modules'
// products, and is 0 for rows without a module.
func TestPEFTIntoFused(t *testing.T) {
	c := tinyConfig(false)
	c.FusedQKV, c.Layers, c.RoPE.Mode, c.Arch = true, 1, ggml.RoPENeoX, "qwen2" // whose rows are not permuted
	m := newModel(t, c, t.Cleanup)
	p := newPEFT(t.TempDir())
	p.config["rank_pattern"], p.config["alpha_pattern"] = map[string]int{"v_proj": 3}, map[string]int{"v_proj": 10}
	p.add(peftLayer+"self_attn.q_proj.lora_A.weight", 2, 64)
	p.add(peftLayer+"self_attn.q_proj.lora_B.weight", 64, 2)
	p.add(peftLayer+"self_attn.v_proj.lora_A.weight", 3, 64)
	p.add(peftLayer+"self_attn.v_proj.lora_B.weight", 32, 3)
	p.write(t)
	a := load(t, p.folder, m)
	require.Len(t, a.Pairs(), 1)
	pair := a.WithScale(1)["blk.0.attn_qkv.weight"][0]
	want := slices.Concat(product(p.tensors[1], p.tensors[0], 4./2), make([]float64, 32*64), product(p.tensors[3], p.tensors[2], 10./3))
	got := product(
		safetensors.Data{Shape: []int64{128, 5}, Values: floats(t, pair.B)}, safetensors.Data{Shape: []int64{5, 64}, Values: floats(t, pair.A)}, float64(pair.Scale))
	require.Len(t, got, len(want))
	for i := range want {
		require.InDelta(t, want[i], got[i], 1e-6*(1+want[i]))
	}
}

// product is factor·B·A, of matrices whose rows follow each other.
func product(b, a safetensors.Data, factor float64) []float64 {
	rows, rank, columns := int(b.Shape[0]), int(b.Shape[1]), int(a.Shape[1])
	sum := make([]float64, rows*columns)
	for i := range rows {
		for r := range rank {
			for j := range columns {
				sum[i*columns+j] += factor * float64(b.Values[i*rank+r]) * float64(a.Values[r*columns+j])
			}
		}
	}
	return sum
}

// The configuration written for different adapters.
func TestPEFTConfig(t *testing.T) {
	m := newModel(t, func() arch.Config {
		c := tinyConfig(false)
		c.Layers = 3
		return c
	}(), t.Cleanup)
	linear := []any{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
	plain := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": nil, "r": 4.0, "lora_alpha": 8.0, "use_rslora": false,
		"rank_pattern": map[string]any{}, "alpha_pattern": map[string]any{}, "target_modules": linear, "layers_to_transform": nil,
		"lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": false, "init_lora_weights": true, "inference_mode": true,
	}
	for _, test := range []struct {
		name    string
		adapter lora.Options
		options lora.PEFTOptions
		want    map[string]any // beside plain
	}{
		{"plain", lora.Options{Rank: 4, Alpha: 8}, lora.PEFTOptions{}, nil},
		{"base and dropout", lora.Options{Rank: 4, Alpha: 8}, lora.PEFTOptions{BaseModel: "org/base", Dropout: 0.25},
			map[string]any{"base_model_name_or_path": "org/base", "lora_dropout": 0.25}},
		{"no alpha", lora.Options{Rank: 4}, lora.PEFTOptions{}, map[string]any{"lora_alpha": 4.0}},
		{"rank-stabilized by its alpha", lora.Options{Rank: 8, Alpha: 22.627417}, lora.PEFTOptions{}, map[string]any{"r": 8.0, "use_rslora": true, "lora_alpha": 8.0}},
		{"rank-stabilized, of several ranks", lora.Options{Rank: 4, Alpha: 3, RankStabilized: true, Ranks: map[string]int{"ffn_down": 7}}, lora.PEFTOptions{},
			map[string]any{"use_rslora": true, "lora_alpha": 3.0, "rank_pattern": map[string]any{"down_proj": 7.0}}},
		{"a broken alpha", lora.Options{Rank: 4, Alpha: 8.5}, lora.PEFTOptions{}, map[string]any{"lora_alpha": 8.5}},
		{"ranks", lora.Options{Rank: 4, Alpha: 8, Ranks: map[string]int{"ffn_down": 2, "attn_q": 3}}, lora.PEFTOptions{},
			map[string]any{"rank_pattern": map[string]any{"q_proj": 3.0, "down_proj": 2.0}}},
		{"one factor", lora.Options{Rank: 4, Factor: 2, Ranks: map[string]int{"ffn_down": 2}}, lora.PEFTOptions{},
			map[string]any{"rank_pattern": map[string]any{"down_proj": 2.0}, "alpha_pattern": map[string]any{"down_proj": 4.0}}},
		{"outside of the layers", lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_v", "token_embd", "output"}}, lora.PEFTOptions{},
			map[string]any{"target_modules": []any{"v_proj", "embed_tokens", "lm_head"}}},
		{"no layer", lora.Options{Rank: 4, Alpha: 8, Targets: []string{"output"}}, lora.PEFTOptions{}, map[string]any{"target_modules": []any{"lm_head"}}},
		{"of images and text", lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_v", "output"}}, lora.PEFTOptions{Root: "model.language_model"},
			map[string]any{"target_modules": []any{
				"model.language_model.layers.0.self_attn.v_proj", "model.language_model.layers.1.self_attn.v_proj",
				"model.language_model.layers.2.self_attn.v_proj", "lm_head",
			}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := trained(t, m, test.adapter)
			folder := t.TempDir()
			require.NoError(t, a.SavePEFT(folder, test.options))
			want := maps.Clone(plain)
			maps.Copy(want, test.want)
			require.Equal(t, want, readConfig(t, folder))
			b := load(t, folder, m)
			requireEqual(t, a, b)
			if test.options.BaseModel != "" { // is kept, also through a GGUF file
				require.Equal(t, "https://huggingface.co/org/base", b.Keys["general.base_model.0.repo_url"])
				path := filepath.Join(folder, "a.gguf")
				require.NoError(t, b.Save(path, lora.SaveOptions{}))
				c := load(t, path, m)
				require.NoError(t, c.SavePEFT(folder, lora.PEFTOptions{}))
				require.Equal(t, "org/base", readConfig(t, folder)["base_model_name_or_path"])
			}
		})
	}
}

// Some layers, and some matrices of some layers.
func TestPEFTLayers(t *testing.T) {
	m := tinyModel(t, false)
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8})
	whole := t.TempDir()
	require.NoError(t, a.SavePEFT(whole, lora.PEFTOptions{}))
	f := need.Value(safetensors.Open(filepath.Join(whole, "adapter_model.safetensors")))(t)
	defer f.Close()
	for name, test := range map[string]struct {
		keep    func(name string) bool
		targets []any
		layers  any
	}{
		"one layer": {func(name string) bool { return strings.Contains(name, "layers.1.") && strings.Contains(name, "q_proj") }, []any{"q_proj"}, []any{1.0}},
		"others in other layers": {func(name string) bool {
			return strings.Contains(name, "0.self_attn.q_proj") || strings.Contains(name, "1.mlp.up_proj")
		}, []any{"model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj"}, nil},
	} {
		folder := t.TempDir()
		p := newPEFT(folder)
		for _, info := range f.Tensors() {
			if test.keep(info.Name) {
				values := need.Value(f.Float32s(info))(t)
				p.tensors = append(p.tensors, safetensors.Data{Name: info.Name, Type: info.Type, Shape: info.Shape, Values: values})
			}
		}
		p.config["lora_alpha"], p.config["r"] = 8, 4
		p.write(t)
		b, err := lora.Load(folder, m)
		require.NoError(t, err, name)
		defer b.Close()
		require.Len(t, b.Pairs(), len(p.tensors)/2)
		again := t.TempDir()
		require.NoError(t, b.SavePEFT(again, lora.PEFTOptions{}))
		require.Equal(t, test.targets, readConfig(t, again)["target_modules"], name)
		require.Equal(t, test.layers, readConfig(t, again)["layers_to_transform"], name)
	}
}

// Layers of stacks have other numbers in transformers than blocks have in files, so they are named by whole paths.
func TestPEFTLayersOfStacks(t *testing.T) {
	m := llmtest.ArchModel(t, "hrm_text", ggml.F32) // of two stacks of two layers
	last := 1
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q", "attn_gate"}, LastLayers: &last})
	folder := t.TempDir()
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
	require.Equal(t, []any{"model.H_module.layers.1.self_attn.q_proj", "model.H_module.layers.1.self_attn.gate_proj"}, readConfig(t, folder)["target_modules"])
	require.Nil(t, readConfig(t, folder)["layers_to_transform"])
	requireEqual(t, a, load(t, folder, m))
}

// A peftFolder is an adapter of PEFT to be written by hand.
type peftFolder struct {
	folder  string
	config  map[string]any
	tensors []safetensors.Data
}

func newPEFT(folder string) *peftFolder {
	return &peftFolder{folder: folder, config: map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 4}}
}

// add adds a tensor of small whole numbers, which differ.
func (p *peftFolder) add(name string, shape ...int64) {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	p.tensors = append(p.tensors, safetensors.Data{Name: name, Type: safetensors.F32, Shape: shape, Values: values})
}

func (p *peftFolder) write(t require.TestingT) {
	raw := need.Value(json.Marshal(p.config))(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "adapter_config.json"), raw, 0o600))
	require.NoError(t, safetensors.WriteFile(filepath.Join(p.folder, "adapter_model.safetensors"), p.tensors, nil))
}

const peftLayer = "base_model.model.model.layers.0."

// The example of llama.cpp's converter: of a head of 8, row 0 stays, then comes row 4.
func TestPEFTRowOrder(t *testing.T) {
	c := tinyConfig(false)
	c.HeadSize, c.RoPE.Dims, c.Heads, c.KVHeads = 8, 8, 2, 1
	m := newModel(t, c, t.Cleanup)
	p := newPEFT(t.TempDir())
	p.config["r"] = 1
	for name, rows := range map[string]int64{"q": 16, "k": 8, "v": 8} {
		p.add(peftLayer+"self_attn."+name+"_proj.lora_A.weight", 1, 64)
		p.add(peftLayer+"self_attn."+name+"_proj.lora_B.weight", rows, 1)
	}
	p.add("base_model.model.model.embed_tokens.lora_embedding_A", 1, 96)
	p.add("base_model.model.model.embed_tokens.lora_embedding_B", 64, 1)
	p.write(t)
	a := load(t, p.folder, m)
	got := map[string][]float32{}
	for _, pair := range a.Pairs() {
		got[pair.Base] = floats(t, pair.B)
		require.Equal(t, p.tensors[len(p.tensors)-2].Values[:5], floats(t, pair.A)[:5], "A stays")
	}
	require.Equal(t, []float32{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}, got["blk.0.attn_q.weight"])
	require.Equal(t, []float32{0, 4, 1, 5, 2, 6, 3, 7}, got["blk.0.attn_k.weight"])
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5, 6, 7}, got["blk.0.attn_v.weight"])
	require.Equal(t, float32(4), a.WithScale(1)["blk.0.attn_v.weight"][0].Scale)
}

// PEFT has several names for the same modules.
func TestPEFTNames(t *testing.T) {
	m := tinyModel(t, false)
	for _, root := range []string{"model.", "model.language_model.", "language_model.model.", ""} {
		p := newPEFT(t.TempDir())
		p.config["alpha_pattern"] = map[string]any{"layers.0.mlp.up_proj": 10, "nothing": 3}
		p.add("base_model.model."+root+"layers.0.mlp.up_proj.lora_A.weight", 2, 64)
		p.add("base_model.model."+root+"layers.0.mlp.up_proj.lora_B.weight", 96, 2)
		// Tensors that PEFT saves, too, because the vocabulary may have been enlarged.
		p.add("base_model.model."+root+"embed_tokens.base_layer.weight", 96, 64)
		p.add("base_model.model.lm_head.weight", 96, 64)
		for i, base := range []string{"token_embd.weight", "output.weight"} {
			p.tensors[2+i].Values = floats(t, m.Weight(base))
		}
		p.write(t)
		a, err := lora.Load(p.folder, m)
		require.NoError(t, err, root)
		require.Len(t, a.Pairs(), 1)
		require.Equal(t, float32(5), a.WithScale(1)["blk.0.ffn_up.weight"][0].Scale)
		require.NoError(t, a.Close())
	}
}

func TestPEFTFaults(t *testing.T) {
	m, tied := tinyModel(t, false), tinyModel(t, true)
	const merge = "merge the adapter into its base with PEFT (merge_and_unload), and convert the merged model to GGUF"
	for _, test := range []struct {
		name   string
		damage func(p *peftFolder)
		want   []string
	}{
		{"another kind", func(p *peftFolder) { p.config["peft_type"] = "IA3" }, []string{`adapter_config.json: peft_type is "IA3"; only LORA is supported`}},
		{"no kind", func(p *peftFolder) { delete(p.config, "peft_type") }, []string{`peft_type is ""`}},
		{"DoRA", func(p *peftFolder) {
			p.config["use_dora"] = true
			p.add(peftLayer+"mlp.up_proj.lora_magnitude_vector", 96)
		}, []string{"adapter_config.json: use_dora is true: DoRA scales the columns of weights too; " + merge}},
		{"DoRA by its tensors", func(p *peftFolder) {
			p.add(peftLayer+"mlp.up_proj.lora_magnitude_vector.weight", 96)
			p.add(peftLayer+"mlp.down_proj.lora_magnitude_vector.weight", 64)
		}, []string{"mlp.down_proj.lora_magnitude_vector.weight belongs to use_dora: DoRA scales the columns of weights too; " + merge}},
		{"biases", func(p *peftFolder) {
			p.config["bias"] = "all"
			p.add(peftLayer+"mlp.up_proj.base_layer.bias", 96)
		}, []string{`bias is "all": it trains biases of the base; ` + merge}},
		{"biases of B", func(p *peftFolder) {
			p.config["lora_bias"] = true
			p.add(peftLayer+"mlp.up_proj.lora_B.bias", 96)
		}, []string{"lora_bias is true: it has biases for B; " + merge}},
		{"whole weights", func(p *peftFolder) {
			p.config["modules_to_save"] = []string{"lm_head", "norm"}
			p.add("base_model.model.lm_head.weight", 96, 64)
			p.add("base_model.model.model.norm.weight", 64)
		}, []string{"tensor base_model.model.model.norm.weight is not a LoRA factor; " + merge, "tensor base_model.model.lm_head.weight is trained: its row 0 differs from output.weight in the model, and an adapter cannot contain whole tensors; " + merge}},
		{"tokens", func(p *peftFolder) {
			p.config["trainable_token_indices"] = []int{1}
			p.add("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta", 1, 64)
		}, []string{"trainable_token_indices is [1]: it trains rows of the embedding; " + merge}},
		{"aLoRA", func(p *peftFolder) { p.config["alora_invocation_tokens"] = []int{1, 2} }, []string{"alora_invocation_tokens is [1,2]: it is an activated LoRA"}},
		{"parameters", func(p *peftFolder) { p.config["target_parameters"] = []string{"experts.up"} }, []string{"target_parameters is"}},
		{"a long setting", func(p *peftFolder) { p.config["layer_replication"] = slices.Repeat([][]int{{0, 4}}, 50) }, []string{"layer_replication is set: it repeats layers"}},
		{"PiSSA", func(p *peftFolder) { p.config["init_lora_weights"] = "pissa_niter_16" }, []string{`init_lora_weights is "pissa_niter_16", which changed the weights of the base; save the adapter with PEFT's path_initial_model_for_weight_conversion`}},
		{"no tensors", func(p *peftFolder) { p.tensors = nil }, []string{"the adapter has no tensors"}},
		{"alpha 0", func(p *peftFolder) { p.config["lora_alpha"] = 0 }, []string{"model.layers.0.mlp.up_proj: alpha is 0; it must be a finite number above 0"}},
		{"alpha negative", func(p *peftFolder) { p.config["lora_alpha"] = -1 }, []string{"alpha is -1"}},
		{"rank", func(p *peftFolder) { p.config["r"] = 4 }, []string{"model.layers.0.mlp.up_proj: its rank is 2, but 4 in adapter_config.json"}},
		{"rank of a pattern", func(p *peftFolder) { p.config["rank_pattern"] = map[string]int{"up_proj": 3} }, []string{"its rank is 2, but 3 in adapter_config.json"}},
		{"A without B", func(p *peftFolder) { p.tensors = p.tensors[:1] }, []string{"mlp.up_proj.lora_A.weight: its B is missing"}},
		{"B without A", func(p *peftFolder) { p.tensors = p.tensors[1:] }, []string{"mlp.up_proj.lora_B.weight: its A is missing"}},
		{"A transposed", func(p *peftFolder) { p.tensors[0].Shape = []int64{64, 2} }, []string{"model.layers.0.mlp.up_proj: A is [64 2] and B [96 2]; they must be A [r, 64] and B [96, r]"}},
		{"a scalar", func(p *peftFolder) { p.tensors[0].Shape, p.tensors[0].Values = nil, []float32{1} }, []string{"A is [] and B [96 2]"}},
		{"no rank", func(p *peftFolder) {
			p.tensors[0].Shape, p.tensors[1].Shape = []int64{0, 64}, []int64{96, 0}
			p.tensors[0].Values, p.tensors[1].Values = nil, nil
		}, []string{"A is [0 64] and B [96 0]"}},
		{"a wider model", func(p *peftFolder) {
			p.add(peftLayer+"mlp.down_proj.lora_A.weight", 2, 64)
			p.add(peftLayer+"mlp.down_proj.lora_B.weight", 64, 2)
		},
			[]string{"model.layers.0.mlp.down_proj: A is [2 64] and B [64 2]; they must be A [r, 96] and B [64, r]"}},
		{"more layers", func(p *peftFolder) { p.add("base_model.model.model.layers.7.mlp.up_proj.lora_A.weight", 2, 64) },
			[]string{"layers.7.mlp.up_proj.lora_A.weight: the model has no such module; it can be adapted in embed_tokens, q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"}},
		{"another architecture", func(p *peftFolder) { p.add(peftLayer+"self_attn.qkv_proj.lora_A.weight", 2, 64) }, []string{"the model has no such module"}},
		{"an image encoder", func(p *peftFolder) { p.add("base_model.model.model.vision_tower.layers.0.q_proj.lora_A.weight", 2, 64) }, []string{"the model has no such module"}},
		{"no prefix", func(p *peftFolder) { p.add("model.layers.0.mlp.gate_proj.lora_A.weight", 2, 64) }, []string{"is not a LoRA factor"}},
		{"unknown tensors", func(p *peftFolder) { p.add("a", 1); p.add("b", 1) }, []string{"tensor a is not a LoRA factor", "tensor b is not a LoRA factor"}},
		{"the same module twice", func(p *peftFolder) {
			p.add("base_model.model.layers.0.mlp.up_proj.lora_A.weight", 2, 64)
			p.add("base_model.model.layers.0.mlp.up_proj.lora_B.weight", 96, 2)
		}, []string{"another tensor is for the same matrix", "another tensor is for the same matrix"}},
		{"more tokens", func(p *peftFolder) { p.add("base_model.model.lm_head.base_layer.weight", 100, 64) },
			[]string{"lm_head.base_layer.weight has the shape [100 64], but the model's is [96 64]: their vocabularies differ; " + merge}},
		{"a linear layer of the embedding", func(p *peftFolder) {
			p.add("base_model.model.model.embed_tokens.lora_A.weight", 2, 64)
			p.add("base_model.model.model.embed_tokens.lora_B.weight", 96, 2)
		}, []string{"named lora_embedding_A and lora_embedding_B"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPEFT(t.TempDir())
			p.add(peftLayer+"mlp.up_proj.lora_A.weight", 2, 64)
			p.add(peftLayer+"mlp.up_proj.lora_B.weight", 96, 2)
			test.damage(p)
			p.write(t)
			_, err := lora.Load(p.folder, m)
			var mismatch *lora.MismatchError
			require.ErrorAs(t, err, &mismatch)
			require.Equal(t, p.folder, mismatch.Path)
			require.Len(t, mismatch.Faults, len(test.want), "%q", mismatch.Faults)
			for i, want := range test.want {
				require.Contains(t, mismatch.Faults[i], want)
			}
		})
	}
	p := newPEFT(t.TempDir())
	p.add("base_model.model.lm_head.lora_A.weight", 2, 64)
	p.add("base_model.model.lm_head.lora_B.weight", 96, 2)
	p.write(t)
	a := need.Value(lora.Load(p.folder, m))(t)
	require.NoError(t, a.Close())
	_, err := lora.Load(p.folder, tied)
	require.ErrorContains(t, err, "output.weight: the model has no such tensor: its output is the token embedding")
}

// Faults of the files themselves.
func TestPEFTFiles(t *testing.T) {
	m := tinyModel(t, false)
	write := func(files map[string]string) string {
		folder := t.TempDir()
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
		return folder
	}
	good := newPEFT(t.TempDir())
	good.add(peftLayer+"mlp.up_proj.lora_A.weight", 2, 64)
	good.add(peftLayer+"mlp.up_proj.lora_B.weight", 96, 2)
	good.write(t)
	tensors := string(content(t, filepath.Join(good.folder, "adapter_model.safetensors")))
	const config = `{"peft_type":"LORA","r":2}`
	for want, files := range map[string]map[string]string{
		"is not a PEFT adapter: it has neither adapter_config.json nor adapter_model.safetensors":          {},
		"adapter_config.json is missing, which has the strength":                                           {"adapter_model.safetensors": tensors},
		": adapter_model.safetensors is missing":                                                           {"adapter_config.json": config},
		"adapter_model.bin is a PyTorch pickle, which is unsupported; save the adapter as":                 {"adapter_config.json": config, "adapter_model.bin": ""},
		"adapter_config.json: unexpected end of JSON input":                                                {"adapter_config.json": "", "adapter_model.safetensors": tensors},
		"adapter_config.json: it is an array, but must be an object":                                       {"adapter_config.json": "[]", "adapter_model.safetensors": tensors},
		"adapter_config.json: r: it is a string, but must be a whole number that fits into 64 bits":        {"adapter_config.json": `{"r":"8"}`, "adapter_model.safetensors": tensors},
		"adapter_config.json: rank_pattern: it must be an object":                                          {"adapter_config.json": `{"rank_pattern":[1]}`, "adapter_model.safetensors": tensors},
		`alpha_pattern: the key "(?=a)" is not a regular expression that Go supports (look-around is not)`: {"adapter_config.json": `{"alpha_pattern":{"(?=a)":1}}`, "adapter_model.safetensors": tensors},
		"adapter_model.safetensors: is cut short":                                                          {"adapter_config.json": config, "adapter_model.safetensors": tensors[:len(tensors)-1]},
		"adapter_model.safetensors: is not a safetensors file":                                             {"adapter_config.json": config, "adapter_model.safetensors": "{}"},
	} {
		folder := write(files)
		_, err := lora.Load(folder, m)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, folder)
	}
	// A file under another name.
	require.NoError(t, os.Rename(filepath.Join(good.folder, "adapter_model.safetensors"), filepath.Join(good.folder, "step-5.safetensors")))
	a := need.Value(lora.Load(filepath.Join(good.folder, "step-5.safetensors"), m))(t)
	require.Len(t, a.Pairs(), 1)
	require.NoError(t, a.Close())
	// Values that no file should have, and types that are not read.
	for want, change := range map[string]func(raw string) string{
		"mlp.up_proj.lora_B.weight holds values that are not finite": func(raw string) string { return raw[:len(raw)-4] + "\x00\x00\xc0\x7f" },
		"lora_A.weight has type I32; F32, F16 and BF16 are supported": func(raw string) string {
			return strings.Replace(raw, `"F32"`, `"I32"`, 1)
		},
	} {
		_, err := lora.Load(write(map[string]string{"adapter_config.json": config, "adapter_model.safetensors": change(tensors)}), m)
		require.ErrorContains(t, err, want)
		var mismatch *lora.MismatchError
		require.ErrorAs(t, err, &mismatch)
	}
}

// Damaged files give an error or an adapter, never a crash, nor a leak.
func TestPEFTDamaged(t *testing.T) {
	m := tinyModel(t, false)
	a := trained(t, m, lora.Options{Rank: 2, Factor: 2, Targets: []string{"attn_q", "ffn_up"}, Ranks: map[string]int{"ffn_up": 3}})
	folder := t.TempDir()
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
		path := filepath.Join(folder, name)
		raw := content(t, path)
		header := min(len(raw), 900)
		refused := 0
		load := func(data []byte) {
			require.NoError(t, os.WriteFile(path, data, 0o600))
			b, err := lora.Load(folder, m)
			if err != nil {
				require.ErrorContains(t, err, folder)
				refused++
			}
			require.NoError(t, b.Close())
		}
		for i := 0; i < header; i += 3 {
			load(raw[:i])
			broken := slices.Clone(raw)
			broken[i] ^= byte(1 + i%255)
			load(broken)
		}
		require.Greater(t, refused, header/3, name)
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	}
}

func TestSavePEFTFaults(t *testing.T) {
	m := tinyModel(t, false)
	a := trained(t, m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q"}})
	folder := filepath.Join(t.TempDir(), "adapter")
	require.ErrorContains(t, a.SavePEFT(folder, lora.PEFTOptions{Type: ggml.Q8_0}), "PEFT adapters are written in f32, f16 or bf16, not in q8_0")
	require.ErrorContains(t, a.SavePEFT(folder, lora.PEFTOptions{Dropout: 1}), "the dropout is 1; it must be from 0 to below 1")
	require.NoDirExists(t, folder)
	b := a.Pairs()[1].B
	values := floats(t, b)
	values[9] = 70000
	require.NoError(t, ggml.Write(b, values))
	require.ErrorContains(t, a.SavePEFT(folder, lora.PEFTOptions{Type: ggml.F16}), "is 70000, which is too large for f16; use f32 or bf16")
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{Type: ggml.BF16}))
	require.NoError(t, a.SavePEFT(folder, lora.PEFTOptions{}))
	before := content(t, filepath.Join(folder, "adapter_model.safetensors"))
	note := filepath.Join(folder, "README.md")
	require.NoError(t, os.WriteFile(note, []byte("notes"), 0o600))
	a.Alpha = 4
	values[9] = float32(math.NaN())
	require.NoError(t, ggml.Write(b, values))
	err := a.SavePEFT(folder, lora.PEFTOptions{})
	require.ErrorContains(t, err, "model.layers.1.self_attn.q_proj.lora_B.weight")
	require.ErrorContains(t, err, "is NaN")
	require.Equal(t, before, content(t, filepath.Join(folder, "adapter_model.safetensors")), "a failed save must leave the old pair")
	require.Equal(t, 8.0, readConfig(t, folder)["lora_alpha"])
	files := need.Value(os.ReadDir(folder))(t)
	require.Len(t, files, 3, "the pair and the note")
	a.Alpha = -1
	require.ErrorContains(t, a.SavePEFT(folder, lora.PEFTOptions{}), "alpha is -1")
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.SavePEFT(folder, lora.PEFTOptions{}), ggml.ErrClosed)
	require.ErrorContains(t, trained(t, m, lora.Options{Rank: 1}).SavePEFT(note, lora.PEFTOptions{}), "not a directory")
}
