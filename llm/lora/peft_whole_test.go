package lora_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/safetensors"
)

// Embeddings that PEFT saved in full are ignored with a notice if they equal the model's, up to rounding to its type
// or theirs; one trained row is a mismatch.
func TestPEFTWholeTensors(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0} {
		original := fileModel(t, false, ggml.F32)
		m := original
		if typ != ggml.F32 {
			m, _ = mergeTo(t, original, nil, lora.MergeOptions{Type: &typ})
		}
		for _, saved := range []safetensors.Type{safetensors.F32, safetensors.BF16} {
			for _, tensor := range []struct{ base, name string }{
				{"token_embd.weight", "base_model.model.model.embed_tokens.weight"}, {"output.weight", "base_model.model.lm_head.weight"},
			} {
				values := floats(t, original.Weight(tensor.base))
				load := func(values []float32) (*lora.Adapter, error) {
					p := newPEFT(t.TempDir())
					p.add(peftLayer+"mlp.up_proj.lora_A.weight", 2, 64)
					p.add(peftLayer+"mlp.up_proj.lora_B.weight", 96, 2)
					p.config["modules_to_save"] = []string{"embed_tokens"}
					p.tensors = append(p.tensors, safetensors.Data{Name: tensor.name, Type: saved, Shape: []int64{96, 64}, Values: values})
					p.write(t)
					return lora.Load(p.folder, m)
				}
				a, err := load(values)
				require.NoError(t, err, "%v, %v", typ, saved)
				require.Equal(t, []string{"tensor " + tensor.name + " is left out, because it equals " + tensor.base + " of the model"}, a.Notices())
				require.Len(t, a.Pairs(), 1)
				require.NoError(t, a.Close())

				trained := slices.Clone(values)
				for i := 40 * 64; i < 41*64; i++ {
					trained[i] *= 1.2
				}
				_, err = load(trained)
				require.ErrorContains(t, err, "tensor "+tensor.name+" is trained: its row 40 differs from "+tensor.base+" in the model", "%v, %v", typ, saved)
			}
		}
	}
}

// The bias of an output, which PEFT saves beside its pair, must be unchanged too.
func TestPEFTOutputBias(t *testing.T) {
	m := llmtest.ArchModel(t, "phi2", ggml.F32)
	load := func(name string, change float32) (*lora.Adapter, error) {
		p := newPEFT(t.TempDir())
		p.add("base_model.model.lm_head.lora_A.weight", 2, 32)
		p.add("base_model.model.lm_head.lora_B.weight", 40, 2)
		p.add(name, 40)
		values := floats(t, m.Weight("output.bias"))
		values[7] += change
		p.tensors[2].Values = values
		p.write(t)
		return lora.Load(p.folder, m)
	}
	const name = "base_model.model.lm_head.base_layer.bias"
	a := need.Value(load(name, 0))(t)
	defer a.Close()
	require.Equal(t, []string{"tensor " + name + " is left out, because it equals output.bias of the model"}, a.Notices())
	require.Len(t, a.Pairs(), 1)
	_, err := load(name, 0.1)
	require.ErrorContains(t, err, "tensor "+name+" is trained: its row 0 differs from output.bias in the model")
	_, err = load("base_model.model.model.layers.0.mlp.fc1.bias", 0)
	require.ErrorContains(t, err, "mlp.fc1.bias belongs to bias: it trains biases of the base; merge")
}

// PEFT ignores tensors of modules that target_modules does not match; we apply them, and say so.
func TestPEFTTargetsNotice(t *testing.T) {
	m := fileModel(t, false, ggml.F32)
	const notice = "1 module is not in target_modules of adapter_config.json, but the file has their tensors, such as model.layers.0.mlp.up_proj: PEFT would ignore these; here they are used"
	for _, c := range []struct {
		config map[string]any
		told   bool
	}{
		{map[string]any{"target_modules": nil}, false},
		{map[string]any{"target_modules": []string{"up_proj"}}, false},
		{map[string]any{"target_modules": []string{"model.layers.0.mlp.up_proj"}}, false},
		{map[string]any{"target_modules": []string{"q_proj", "p_proj"}}, true},
		{map[string]any{"target_modules": `.*\.(up|down)_proj`}, false},
		{map[string]any{"target_modules": `.*\.(q|v)_proj`}, true},
		{map[string]any{"target_modules": `.*(?!q)_proj`}, false}, // Go has no such expression
		{map[string]any{"target_modules": "all-linear"}, false},
		{map[string]any{"target_modules": []string{"up_proj"}, "exclude_modules": []string{"up_proj"}}, true},
		{map[string]any{"target_modules": []string{"up_proj"}, "layers_to_transform": []int{1}}, true},
		{map[string]any{"target_modules": []string{"up_proj"}, "layers_to_transform": 0}, false},
		{map[string]any{"target_modules": []string{"up_proj"}, "layers_to_transform": nil}, false},
	} {
		p := newPEFT(t.TempDir())
		p.add(peftLayer+"mlp.up_proj.lora_A.weight", 2, 64)
		p.add(peftLayer+"mlp.up_proj.lora_B.weight", 96, 2)
		for key, value := range c.config {
			p.config[key] = value
		}
		p.write(t)
		a := need.Value(lora.Load(p.folder, m))(t)
		require.Len(t, a.Pairs(), 1)
		if c.told {
			require.Equal(t, []string{notice}, a.Notices(), "%v", c.config)
		} else {
			require.Empty(t, a.Notices(), "%v", c.config)
		}
		require.NoError(t, a.Close())
	}
}
