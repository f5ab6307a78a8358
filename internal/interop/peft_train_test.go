//go:build interop

package interop

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// gemma4Targets are all linear modules of a layer.
var gemma4Targets = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "per_layer_input_gate", "per_layer_projection"}

// hybridTargets lack input_linear: one pair of PEFT's is two here, gate and up, which train apart.
var hybridTargets = []string{"q_proj", "k_proj", "v_proj", "o_proj", "in_proj", "out_proj", "output_linear"}

// PEFT's adapters have the same effect here, and continue training as in PEFT.
func TestInteropPEFTImport(t *testing.T) {
	needPEFT(t)
	all := []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head"}
	fused := []string{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
	for _, test := range []struct {
		name, arch, typ string
		config          arguments
	}{
		{"plain", "llama", "float32", arguments{"r": 8, "lora_alpha": 16, "target_modules": all[:7]}},
		{"all-linear", "qwen3", "bfloat16", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}},
		{"regular expression", "mistral3", "float16", arguments{"r": 4, "lora_alpha": 8, "target_modules": `.*\.(q|v)_proj`}},
		{"rsLoRA", "llama", "float32", arguments{"r": 9, "lora_alpha": 7, "use_rslora": true, "target_modules": all}},
		{"patterns", "llama", "float32", arguments{
			"r": 4, "lora_alpha": 16, "target_modules": all, "layers_to_transform": nil,
			"rank_pattern":  arguments{"down_proj": 3, `model.layers.1.self_attn.(q|k)_proj`: 7, "self_attn.q_proj": 5, "embed_tokens": 2},
			"alpha_pattern": arguments{`^model.layers.0.*_proj`: 5, `.*\.o_proj`: 1.5, "lm_head": 32},
		}},
		{"patterns and rsLoRA", "qwen3", "float32", arguments{
			"r": 4, "lora_alpha": 3, "use_rslora": true, "target_modules": all[:7],
			"rank_pattern": arguments{"down_proj": 16}, "alpha_pattern": arguments{`layers\.1\..*`: 2},
		}},
		{"some layers", "smollm3", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": all[:2], "layers_to_transform": []int{1, 3}}},
		{"fused", "phi3", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": fused, "rank_pattern": arguments{"qkv_proj": 6}}},
		{"embedding", "gemma3", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": append(all[:1:1], "embed_tokens")}},
		{"embedding scaled", "granite", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": []string{"embed_tokens", "lm_head"}}},
		{"starcoder2", "starcoder2", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}},
		{"gemma2", "gemma2", "bfloat16", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}},
		{"glm4", "glm4", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "rank_pattern": arguments{"gate_up_proj": 6}}},
		{"command-r", "command-r", "float16", arguments{"r": 4, "lora_alpha": 8, "use_rslora": true, "target_modules": append(all[:7:7], "embed_tokens")}},
		{"phi2", "phi2", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": []string{"q_proj", "dense", "fc1", "fc2", "embed_tokens", "lm_head"}}},
		{"gpt-oss", "gpt-oss", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": all[:4], "target_parameters": []string{"router.weight"}}},
		{"qwen35", "qwen35", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "rank_pattern": arguments{"in_proj_qkv": 6, "in_proj_b": 2}}},
		{"lfm2", "lfm2", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}},
		{"granitehybrid", "granitehybrid", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "rank_pattern": arguments{"input_linear": 6}}},
		{"gemma4", "gemma4", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": gemma4Targets}},
		{"minicpm3", "minicpm3", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": all[3:7]}},
		{"qwen3moe", "qwen3moe", "float32", arguments{"r": 4, "lora_alpha": 8, "target_modules": append(all[:4:4], "gate")}},
		{"parameters", "qwen3moe", "float32", arguments{
			"r": 4, "lora_alpha": 8, "target_modules": all[:2], "target_parameters": []string{"mlp.gate.weight"},
			"rank_pattern": arguments{"gate.weight": 6}, "alpha_pattern": arguments{"mlp.gate": 3, `layers.1.mlp.gate.weight`: 5},
		}},
		{"dropout", "qwen2", "float32", arguments{"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": all[:7], "init_lora_weights": "orthogonal"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := peftModels()[test.arch].load(t)
			folder := filepath.Join(t.TempDir(), "adapter")
			ask[any](t, "create", arguments{"Adapter": folder, "Arguments": test.config, "Seed": 1, "Type": test.typ})
			a := need.Value(lora.Load(folder, m))(t)
			defer a.Close()
			tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
			ours := ourLogits(t, m, tokens, a.WithScale(1))
			requireSameLogits(t, m, test.name, ours, peftLogits(t, folder, tokens))
			require.Greater(t, maxDifference(ours, ourLogits(t, m, tokens, nil)), 0.1, "the adapter must matter")
			for _, file := range []string{"adapter_config.json", "adapter_model.safetensors"} {
				b := need.Value(lora.Load(filepath.Join(folder, file), m))(t)
				require.Equal(t, ours, ourLogits(t, m, tokens, b.WithScale(1)), file)
				require.NoError(t, b.Close())
			}
		})
	}
}

// Both train alike: each loss is within 0.1 %, and so are the logits with the trained adapters.
func TestInteropPEFTTraining(t *testing.T) {
	needPEFT(t)
	for _, test := range []struct {
		name, arch  string
		adapter     arguments // PEFT's
		shape       train.Shape
		peak, floor float64
		chats       bool // samples of various lengths, trained in parts
		packed      bool // packed here; in PEFT each sample is a row
	}{
		{"rank 8, constant", "llama", arguments{"r": 8, "lora_alpha": 16}, train.Constant, 2e-3, 2e-3, false, false},
		{"rank 8, cosine", "qwen3", arguments{"r": 8, "lora_alpha": 16}, train.Cosine, 5e-3, 5e-4, false, false},
		{"rsLoRA 64, constant", "llama", arguments{"r": 64, "lora_alpha": 16, "use_rslora": true}, train.Constant, 5e-4, 5e-4, false, false},
		{"rsLoRA 64, cosine", "llama", arguments{"r": 64, "lora_alpha": 16, "use_rslora": true}, train.Cosine, 1e-3, 0, false, false},
		{"masked", "llama", arguments{"r": 8, "lora_alpha": 16}, train.Cosine, 3e-3, 0, true, false},
		{"masked and packed", "qwen3", arguments{"r": 8, "lora_alpha": 16}, train.Constant, 2e-3, 2e-3, true, true},
		{"starcoder2", "starcoder2", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Cosine, 2e-3, 0, false, false},
		{"gemma2", "gemma2", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Constant, 2e-3, 2e-3, false, false},
		{"glm4", "glm4", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Cosine, 2e-3, 0, true, true},
		{"command-r", "command-r", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Constant, 5e-3, 5e-3, true, false},
		{"phi2", "phi2", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Cosine, 2e-3, 0, false, false},
		{"qwen35, packed", "qwen35", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Constant, 1e-3, 1e-3, true, true},
		{"lfm2, packed", "lfm2", arguments{"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}, train.Constant, 2e-3, 2e-3, true, true},
		{"granitehybrid, packed", "granitehybrid", arguments{"r": 8, "lora_alpha": 16, "target_modules": hybridTargets}, train.Cosine, 2e-3, 0, true, true},
		{"gemma4, packed", "gemma4", arguments{"r": 8, "lora_alpha": 16, "target_modules": gemma4Targets}, train.Constant, 2e-3, 2e-3, true, true},
		{"minicpm3, packed", "minicpm3", arguments{"r": 8, "lora_alpha": 16, "target_modules": []string{"o_proj", "gate_proj", "up_proj", "down_proj"}}, train.Cosine, 2e-3, 0, true, true},
		{"gpt-oss", "gpt-oss", arguments{"r": 8, "lora_alpha": 16, "target_modules": []string{"q_proj", "k_proj", "v_proj", "o_proj"}, "target_parameters": []string{"router.weight"}}, train.Cosine, 5e-3, 5e-4, false, false},
		{"qwen3moe", "qwen3moe", arguments{"r": 8, "lora_alpha": 16, "target_modules": []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate"}}, train.Cosine, 5e-3, 5e-4, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := peftModels()[test.arch].load(t)
			folder, out := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "trained")
			if test.adapter["target_modules"] == nil {
				test.adapter["target_modules"] = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
			}
			ask[any](t, "create", arguments{"Adapter": folder, "Arguments": test.adapter, "Seed": 1, "Type": "float32"})
			const steps, batch, length = 100, 4, 24
			samples := learnable(m.Config().Vocab, steps*batch, length)
			if test.chats {
				samples = masked(samples)
			}
			rows := data.New(length, samples)
			if test.packed {
				samples = masked(learnable(m.Config().Vocab, 4*steps*batch, length))
				rows = need.Value(data.New(m.Config().Context, samples).Packed(1))(t)
				require.Greater(t, rows.Len(), steps*batch)
				require.Greater(t, rows.NumSamples(), 3*rows.Len())
			}
			adam := train.AdamW{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Decay: 0.01, Clip: 1}
			a := need.Value(lora.Load(folder, m))(t)
			defer a.Close()
			trainer := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, rows, train.Options{
				Schedule: train.Schedule{Shape: test.shape, Peak: test.peak, Floor: test.floor, Steps: steps}, AdamW: adam, Batch: batch, Accumulate: 1, Threads: 1,
			}))(t)
			defer trainer.Close()
			var inputs, labels [][][]int32
			order := data.Shuffler{N: rows.Len()}
			for step := range steps {
				in, of := padded(t, rows, batch, func(i int) int { return order.At(step*batch + i) })
				inputs, labels = append(inputs, in), append(labels, of)
			}
			theirs := ask[[]float64](t, "train", arguments{
				"Adapter": folder, "Out": out, "Batches": inputs, "Labels": labels, "Peak": test.peak, "Floor": test.floor,
				"Beta1": adam.Beta1, "Beta2": adam.Beta2, "Epsilon": adam.Epsilon, "Decay": adam.Decay, "Clip": adam.Clip,
			})
			worst := 0.0
			for step, loss := range theirs {
				point := need.Value(trainer.Step(context.Background()))(t)
				worst = max(worst, math.Abs(point.Loss-loss)/loss)
				require.InEpsilon(t, loss, point.Loss, 1e-3, "step %d", step+1)
			}
			t.Logf("losses from %.3f to %.3f, at most %.2g %% apart", theirs[0], theirs[steps-1], 100*worst)
			require.Less(t, theirs[steps-1], 0.8*theirs[0], "there must be something to learn")
			b := need.Value(lora.Load(out, m))(t)
			defer b.Close()
			tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
			n := nmse(ourLogits(t, m, tokens, a.WithScale(1)), ourLogits(t, m, tokens, b.WithScale(1)))
			t.Logf("trained here and by PEFT: NMSE %.2g", n)
			require.LessOrEqual(t, n, 1e-5)
		})
	}
}

// learnable returns samples in which each token mostly follows from the previous one.
func learnable(vocab, n, length int) (samples []data.Sample) {
	for i := range n {
		noise := llmtest.RandomTokens(uint64(i), length+1, vocab)
		tokens := noise[:1:1]
		for _, random := range noise[1:] {
			next := (tokens[len(tokens)-1]*5 + 3) % 32
			if random%4 == 0 {
				next = random
			}
			tokens = append(tokens, next)
		}
		samples = append(samples, data.Sample{Tokens: tokens})
	}
	return samples
}

// masked cuts samples to various lengths, and trains only some turns.
func masked(samples []data.Sample) (list []data.Sample) {
	for i, s := range samples {
		random := llmtest.RandomTokens(uint64(i), len(s.Tokens), 12)
		s.Tokens = s.Tokens[:len(s.Tokens)-int(random[0])]
		s.LossWeights = make([]float32, s.Predicted())
		trained := float32(0)
		for j := range s.LossWeights {
			if random[j+1] < 3 { // end of the turn
				trained = 1 - trained
			}
			s.LossWeights[j] = trained
		}
		s.LossWeights[len(s.LossWeights)-1] = 1
		list = append(list, s)
	}
	return list
}

// padded returns the samples of rows for PEFT: inputs and labels of one length. Untrained tokens and padding
// have the label -100.
func padded(t *testing.T, d *data.Dataset, batch int, at func(i int) int) (inputs, labels [][]int32) {
	t.Helper()
	for i := range batch {
		row := need.Value(d.Row(at(i)))(t)
		for _, s := range row {
			n := s.Predicted()
			in, of := slices.Repeat([]int32{0}, d.Length), slices.Repeat([]int32{-100}, d.Length)
			copy(in, s.Tokens[:n])
			for j := range n {
				if s.LossWeights == nil || s.LossWeights[j] > 0 {
					of[j] = s.Tokens[j+1]
				}
			}
			inputs, labels = append(inputs, in), append(labels, of)
		}
	}
	return inputs, labels
}

// The greedy text after 20 prompts is the same in PEFT, here with PEFT's adapter, and in stock llama.cpp with
// the GGUF file written from it.
func TestInteropPEFTText(t *testing.T) {
	needPEFT(t)
	const length = 16
	m := llmtest.GoldenModel(t, ggml.F32)
	loadTrained(t, m)
	folder, file := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "adapter.gguf")
	ask[any](t, "create", arguments{"Adapter": folder, "Seed": 1, "Type": "float32", "Arguments": arguments{
		"r": 8, "lora_alpha": 2, "use_rslora": true, "target_modules": "all-linear", "rank_pattern": arguments{"q_proj": 4},
	}})
	a := need.Value(lora.Load(folder, m))(t)
	defer a.Close()
	require.NoError(t, a.Save(file, lora.SaveOptions{}))

	text := llmtest.GoldenTokens(t)
	var prompts []string
	var tokens [][]int32
	for i := range 20 {
		prompts = append(prompts, strings.TrimSpace(m.Tokenizer.Decode(text[5*i:][:6+i], tokenizer.DecodeOptions{RemoveSpecial: true})))
		tokens = append(tokens, m.Tokenizer.Encode(prompts[i], tokenizer.EncodeOptions{AddSpecial: true}))
	}
	theirs := ask[[][]int32](t, "generate", arguments{"Adapter": folder, "Prompts": tokens, "Length": length})
	changed := 0
	for i, prompt := range tokens {
		ours := greedy(t, m, a.WithScale(1), prompt, length)
		require.Equal(t, theirs[i], ours, "PEFT: %q", prompts[i])
		// Greedy: each token is the most probable one after the tokens before it.
		logits := stockLogits(t, m.Path, append(slices.Clone(prompt), ours...), file+"=1")
		var stocks []int32
		for j := range ours {
			stocks = append(stocks, likeliest(logits[len(prompt)-1+j]))
		}
		require.Equal(t, stocks, ours, "llama.cpp: %q", prompts[i])
		if !slices.Equal(ours, greedy(t, m, nil, prompt, length)) {
			changed++
		}
	}
	t.Logf("the adapter changes %d of %d texts", changed, len(prompts))
	require.Greater(t, changed, 10, "the adapter must matter")
}

// loadTrained creates a model of these programs in Python.
func loadTrained(t *testing.T, m *model.Model) {
	t.Helper()
	c := m.Config()
	ask[any](t, "load", arguments{"Arch": c.Arch, "Class": "LlamaForCausalLM", "Config": "LlamaConfig", "Weights": writeWeights(t, m), "Arguments": arguments{
		"vocab_size": c.Vocab, "hidden_size": c.Embd, "intermediate_size": c.FF, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KVHeads, "head_dim": c.HeadSize, "max_position_embeddings": c.Context, "rms_norm_eps": c.RMSEps, "tie_word_embeddings": c.Tied,
		"rope_parameters": arguments{"rope_type": "default", "rope_theta": c.RoPE.FreqBase},
	}})
}

// greedy returns the most probable tokens after a prompt.
func greedy(t *testing.T, m *model.Model, adapters model.Adapters, prompt []int32, length int) []int32 {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Context: 256, CacheType: ggml.F32, Adapters: adapters, Threads: 2}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	logits := need.Value(q.Decode(context.Background(), prompt))(t)
	var answer []int32
	for range length {
		answer = append(answer, likeliest(logits))
		logits = need.Value(q.Decode(context.Background(), answer[len(answer)-1:]))(t)
	}
	return answer
}

func likeliest(logits []float32) int32 {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return int32(best)
}
