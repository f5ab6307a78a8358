package model_test

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// A file that is not a model of a known kind is refused in one line that names it.
func TestLoadErrors(t *testing.T) {
	made := need.Value(model.New(llmtest.TinyConfig(false), nil, 1))(t)
	defer made.Close()
	for name, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"adapter":       {"general.type", "adapter", `the file is of type "adapter", not a model`},
		"architecture":  {"general.architecture", "abacus", `architecture "abacus"; supported: ` + strings.Join(arch.Architectures(), ", ")},
		"no heads":      {"llama.attention.head_count", uint32(0), "llama.attention.head_count is 0"},
		"KV heads":      {"llama.attention.head_count_kv", uint32(3), "4 heads cannot share 3 KV heads"},
		"experts":       {"llama.expert_count", uint32(8), "llama.expert_used_count is 0, but must be 1 to 8"},
		"scaling":       {"llama.rope.scaling.type", "cubic", `RoPE scaling "cubic" is unsupported; supported: linear, longrope, none, yarn`},
		"width":         {"llama.embedding_length", uint32(32), "token_embd.weight is [64 96], not [32 96]"},
		"wrong type":    {"llama.block_count", "two", "llama.block_count"},
		"more layers":   {"llama.block_count", uint32(3), "blk.2.attn_q.weight is missing"},
		"many layers":   {"llama.block_count", uint32(500), "; and 4472 more"},
		"damaged":       {"llama.block_count", uint32(1<<31 - 1), "there are 2147483647 layers; the limit is 512"},
		"no KV heads":   {"llama.attention.head_count_kv", uint32(0), ": unsupported model: llama.attention.head_count_kv is 0"},
		"missing":       {"llama.context_length", nil, `key not found`},
		"list":          {"llama.context_length", []uint32{64, 64}, `key "llama.context_length": the file has a value of type []uint32`},
		"short list":    {"llama.feed_forward_length", []uint32{96}, "llama.feed_forward_length has 1 values for 2 layers"},
		"long list":     {"llama.attention.head_count", []int32{4, 4, 4}, "llama.attention.head_count has 3 values for 2 layers"},
		"texts":         {"llama.attention.head_count_kv", []string{"2", "2"}, "llama.attention.head_count_kv is not a list of whole numbers"},
		"unequal":       {"llama.feed_forward_length", []uint32{96, 64}, "llama.feed_forward_length differs from layer to layer"},
		"vocabulary":    {"llama.vocab_size", uint32(97), "llama.vocab_size is 97, but token_embd.weight has 96 rows"},
		"wide":          {"llama.feed_forward_length", uint32(1<<31 - 1), "a matrix has rows or columns of 4294967294 elements; the limit is 16777216"},
		"first context": {"llama.rope.scaling.original_context_length", uint32(1 << 31), "llama.rope.scaling.original_context_length is 2147483648"},
		"predictors":    {"llama.nextn_predict_layers", uint32(1), "its last layers (1) predict several tokens ahead"},
		"not causal":    {"llama.attention.causal", false, "its attention is bidirectional"},
		"values differ": {"llama.attention.value_length", uint32(8), "llama.attention.value_length is 8, not 16 as everywhere else"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "model.gguf")
			require.NoError(t, made.Save(path, model.SaveOptions{}))
			g := need.Value(ggml.OpenGGUF(path))(t)
			defer g.Close()
			setKey(t, g, c.key, c.value)
			changed := filepath.Join(dir, "changed.gguf")
			require.NoError(t, g.WriteFile(changed))
			_, err := model.Load(changed, model.LoadOptions{})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, changed)
		})
	}
}

// A setting in a file of a known kind that nothing computes is refused by name.
func TestUnsupportedVariants(t *testing.T) {
	for _, c := range []struct {
		arch, key string
		value     any
		want      string
	}{
		{"deepseek2", "attention.key_length", uint32(44), "deepseek2.attention.key_length is 44"},
		{"deepseek2", "attention.value_length_mla", uint32(0), "deepseek2.attention.value_length_mla is 0"},
		{"hrm_text", "hrm.h_cycles", uint32(3), "hrm_text.block_count is 12, not the product of 2 layers per stack, 3 high cycles, and 2 low cycles plus 1"},
		{"hrm_text", "hrm.prefix_lm", true, "hrm_text.hrm.prefix_lm is true: bidirectional attention within prompts is unsupported"},
		{"k2-horizon", "attention.value_expert_used_count", uint32(6), "k2-horizon.attention.value_expert_used_count is 6, but must be 1 to 5"},
		{"k2-horizon", "expert_gating_func", uint32(3), "k2-horizon.expert_gating_func is 3, which value experts do not support"},
		{"lfm2", "shortconv.l_cache", uint32(1), "lfm2.shortconv.l_cache is 1"},
		{"maion-coder", "expert_feed_forward_length", []uint32{32, 0, 32, 96}, "layer 1 cannot have experts of width 0"},
		{"minicpm3", "attention.value_length", uint32(24), "minicpm3.attention.value_length is 24"},
		{"mistral4", "attention.temperature_length", uint32(0), "mistral4.attention.temperature_length is 0, but the attention temperature needs it to be positive"},
	} {
		t.Run(c.arch+" "+c.key, func(t *testing.T) {
			g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, c.arch, ggml.F32)))(t)
			defer g.Close()
			setKey(t, g, c.arch+"."+c.key, c.value)
			changed := filepath.Join(t.TempDir(), "changed.gguf")
			require.NoError(t, g.WriteFile(changed))
			_, err := model.Load(changed, model.LoadOptions{})
			require.EqualError(t, err, changed+": unsupported model: "+c.want)
		})
	}
}

// setKey changes a key, or removes it for nil.
func setKey(t *testing.T, g *ggml.GGUF, key string, value any) {
	t.Helper()
	if value == nil {
		require.NoError(t, g.Remove(key))
		return
	}
	require.NoError(t, g.Set(key, value))
}

// Keys of one architecture mean what they say, or are refused by name.
func TestKeysOfArchitectures(t *testing.T) {
	const pattern = "gemma3.attention.sliding_window_pattern"
	for name, c := range map[string]struct {
		arch, key string
		value     any
		want      string
	}{
		"pattern":          {"gemma3", pattern, uint32(6), ""},
		"list":             {"gemma3", pattern, []bool{true, true, true, true, true, false}, ""},
		"list of numbers":  {"gemma3", pattern, []uint32{1, 1, 0, 1, 1, 0}, ""},
		"no pattern":       {"gemma3", pattern, uint32(0), pattern + " is 0"},
		"short list":       {"gemma3", pattern, []bool{true, false}, pattern + " has 2 values for 6 layers"},
		"texts":            {"gemma3", pattern, make([]string, 6), pattern + " is not a list of booleans"},
		"irregular":        {"gemma3", pattern, []bool{true, false, true, true, true, false}, ""},
		"endless window":   {"gemma3", "gemma3.attention.sliding_window", uint32(1 << 31), "gemma3.attention.sliding_window is 2147483648"},
		"heads of windows": {"gemma3", "gemma3.attention.key_length_swa", uint32(8), "gemma3.attention.key_length_swa is 8, not 16"},
		"cap":              {"gemma3", "gemma3.final_logit_softcapping", float32(math.NaN()), "gemma3.final_logit_softcapping is NaN"},
		"no logits":        {"granite", "granite.logit_scale", float32(0), "granite.logit_scale is 0"},
		"no scale":         {"granite", "granite.logit_scale", nil, `key "granite.logit_scale": key not found`},
		"negative":         {"granite", "granite.attention.scale", float32(-1), "granite.attention.scale is -1"},
		"temperature":      {"mistral3", "mistral3.rope.scaling.original_context_length", uint32(0), "mistral3.rope.scaling.original_context_length is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, c.arch, ggml.F32)))(t)
			defer g.Close()
			setKey(t, g, c.key, c.value)
			_, err := arch.ReadConfig(g)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, arch.ErrUnsupported)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Factors of RoPE may be in a file that says that there is no RoPE.
func TestFactorsWithoutRoPE(t *testing.T) {
	g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, "granite", ggml.F32)))(t)
	defer g.Close()
	require.NoError(t, g.Set("granite.rope.scaling.finetuned", false))
	require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: "rope_freqs.weight", Type: ggml.F32, Shape: []int64{4}}, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 16))
		return err
	}))
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, g.WriteFile(path))
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	m.Close()
}

// A weight of a type that nothing computes with is refused by name as the file is opened.
func TestTypesOfWeights(t *testing.T) {
	for name, typ := range map[string]ggml.Type{
		"token_embd.weight": ggml.I32, "blk.1.ffn_down.weight": ggml.I8, "output_norm.weight": ggml.F16, "blk.0.attn_q.bias": ggml.BF16,
		"blk.1.attn_k.scale": ggml.F16, "rope_freqs.weight": ggml.F64,
	} {
		g := need.Value(ggml.OpenGGUF(llmtest.ArchFile(t, "llama", ggml.F32)))(t)
		defer g.Close()
		info, ok := g.Tensor(name)
		require.True(t, ok, name)
		require.NoError(t, g.SetTensorData(name, typ, func(w io.Writer) error {
			_, err := w.Write(make([]byte, typ.RowSize(info.NumElements())))
			return err
		}))
		path := filepath.Join(t.TempDir(), "model.gguf")
		require.NoError(t, g.WriteFile(path))
		_, err := model.Load(path, model.LoadOptions{})
		require.EqualError(t, err, fmt.Sprintf("%s: unsupported model: %s has the type %v, which this kind of weight cannot have", path, name, typ))
	}
}

// What a file has beyond the graph would change its results, and is refused.
func TestUnknownTensors(t *testing.T) {
	made := need.Value(model.New(llmtest.TinyConfig(false), nil, 1))(t)
	defer made.Close()
	for name, c := range map[string]struct {
		shape []int64
		want  string
	}{
		"blk.0.attn_q.bias":        {[]int64{64}, ""},
		"rope_freqs.weight":        {[]int64{8}, ""},
		"blk.1.ffn_up.bias":        {[]int64{1}, "blk.1.ffn_up.bias is [1], not [96]"},
		"rope_freqs.factors":       {[]int64{8}, `rope_freqs.factors does not belong to a model of kind "llama"`},
		"blk.0.attn_q_norm.weight": {[]int64{16}, "blk.0.attn_q_norm.weight does not belong"},
		"blk.0.attn_q.scale":       {[]int64{1}, ""},
		"blk.0.attn_norm.scale":    {[]int64{1}, "blk.0.attn_norm.scale does not belong"},
		"blk.2.attn_norm.weight":   {[]int64{64}, "blk.2.attn_norm.weight does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, more := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "more.gguf")
			require.NoError(t, made.Save(path, model.SaveOptions{}))
			g := need.Value(ggml.OpenGGUF(path))(t)
			defer g.Close()
			require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: c.shape}, func(w io.Writer) error {
				_, err := w.Write(make([]byte, 4*c.shape[0]))
				return err
			}))
			require.NoError(t, g.WriteFile(more))
			m, err := model.Load(more, model.LoadOptions{})
			if c.want == "" {
				require.NoError(t, err)
				m.Close()
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A model that is made, saved and loaded has the same RoPE.
func TestRoPEIsSaved(t *testing.T) {
	for name, change := range map[string]func(r *ggml.RoPE){
		"plain":       func(*ggml.RoPE) {},
		"linear":      func(r *ggml.RoPE) { r.FreqScale = 0.25 },
		"yarn":        func(r *ggml.RoPE) { r.FreqScale, r.ExtFactor, r.TrainedCtx = 0.125, 1, 32 },
		"attention":   func(r *ggml.RoPE) { r.AttnFactor = 0.75 },
		"yarn and it": func(r *ggml.RoPE) { r.FreqScale, r.ExtFactor, r.AttnFactor = 0.5, 1, 1.5 },
	} {
		c := llmtest.TinyConfig(true)
		change(&c.RoPE)
		m, err := model.New(c, nil, 1)
		require.NoError(t, err, name)
		path := filepath.Join(t.TempDir(), "model.gguf")
		require.NoError(t, m.Save(path, model.SaveOptions{}))
		m.Close()
		again, err := model.Load(path, model.LoadOptions{})
		require.NoError(t, err, name)
		require.Equal(t, c.RoPE, again.Config().RoPE, name)
		again.Close()
	}
	for want, change := range map[string]func(r *ggml.RoPE){
		"YaRN has factor 0.5":             func(r *ggml.RoPE) { r.ExtFactor = 0.5 },
		"betas 16 and 1":                  func(r *ggml.RoPE) { r.ExtFactor, r.BetaFast = 1, 16 },
		"belongs to another architecture": func(r *ggml.RoPE) { r.Mode = ggml.RoPENeoX },
	} {
		c := llmtest.TinyConfig(true)
		change(&c.RoPE)
		_, err := model.New(c, nil, 1)
		require.ErrorContains(t, err, want)
	}
}

// A file without a vocabulary says that it has none, and opens again.
func TestNoVocabulary(t *testing.T) {
	m := need.Value(model.New(llmtest.TinyConfig(false), nil, 1))(t)
	defer m.Close()
	path := filepath.Join(t.TempDir(), "bare.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	again := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer again.Close()
	require.Nil(t, again.Tokenizer)
	kind := need.Value(ggml.GGUFValue[string](again.GGUF(), "tokenizer.ggml.model"))(t)
	require.Equal(t, "no_vocab", kind)
}

// Numbers that are not finite, or too large, make no model, and neither do lists that say nothing of layers.
func TestConfigIsFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, change := range map[string]func(c *arch.Config){
		"llama.rope.scaling.attn_factor is NaN":          func(c *arch.Config) { c.RoPE.AttnFactor = nan },
		"llama.rope.scaling.attn_factor is +Inf":         func(c *arch.Config) { c.RoPE.AttnFactor = inf },
		"llama.attention.layer_norm_rms_epsilon is NaN":  func(c *arch.Config) { c.RMSEps = nan },
		"llama.attention.layer_norm_rms_epsilon is +Inf": func(c *arch.Config) { c.RMSEps = inf },
		"llama.rope.freq_base is NaN":                    func(c *arch.Config) { c.RoPE.FreqBase = nan },
		"llama.rope.scaling.factor is 0":                 func(c *arch.Config) { c.RoPE.FreqScale = inf },
		"llama.logit_scale is NaN":                       func(c *arch.Config) { c.LogitScale = nan },
		"YaRN has betas NaN and 1":                       func(c *arch.Config) { c.RoPE.BetaFast = nan },
		"4294967294 elements; the limit is 16777216":     func(c *arch.Config) { c.Embd, c.FF = math.MaxInt32, math.MaxInt32 },
		"llama.attention.head_count has 0 values":        func(c *arch.Config) { c.HeadsAt = []int{} },
		"llama.attention.rope_pattern has 0 values":      func(c *arch.Config) { c.RoPELayers = []bool{} },
	} {
		c := llmtest.TinyConfig(true)
		change(&c)
		_, err := model.New(c, nil, 1)
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}

// A model that its file cannot describe is refused: read again, it would be another one.
func TestConfigFitsIntoFile(t *testing.T) {
	for want, c := range map[string]struct {
		arch   string
		change func(c *arch.Config)
	}{
		"EmbdScale is 3, but files of this architecture can only have 0":       {"llama", func(c *arch.Config) { c.EmbdScale = 3 }},
		"NoRoPEStep is 2, but files of this architecture can only have 0":      {"qwen3", func(c *arch.Config) { c.NoRoPEStep = 2 }},
		"NoRoPEStep is 0, but files of this architecture can only have 4":      {"smollm3", func(*arch.Config) {}},
		"EmbdScale is 0, but files of this architecture can only have 8":       {"gemma3", func(*arch.Config) {}},
		"Window is 5, but files of this architecture can only have 0":          {"phi3", func(c *arch.Config) { c.Window, c.WindowPattern = 5, 2 }},
		"olmo2.rope.freq_base_swa is 500, but the base of all layers is 10000": {"olmo2", func(c *arch.Config) { c.LocalFreqBase = 500 }},
	} {
		config := llmtest.TinyConfig(true)
		config.Arch = c.arch
		if !slices.Contains([]string{"llama", "smollm3"}, c.arch) {
			config.RoPE.Mode = ggml.RoPENeoX
		}
		c.change(&config)
		_, err := model.New(config, nil, 1)
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
}
