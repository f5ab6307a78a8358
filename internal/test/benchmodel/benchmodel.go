// Package benchmodel writes models of realistic shapes with random weights for measurements: computing them
// takes as long as with trained weights.
package benchmodel

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Small has 28 million parameters.
func Small() arch.Config {
	return llama("28M", arch.Config{Vocab: 8192, Embd: 512, FF: 1408, Layers: 8, Heads: 8, KVHeads: 4, HeadSize: 64, Tied: true})
}

// Medium has 0.3 billion parameters.
func Medium() arch.Config {
	return llama("0.3B", arch.Config{Vocab: 32000, Embd: 1024, FF: 2816, Layers: 24, Heads: 16, KVHeads: 4, HeadSize: 64})
}

// Large has 1.1 billion parameters: the shape of TinyLlama.
func Large() arch.Config {
	return llama("1.1B", arch.Config{Vocab: 32000, Embd: 2048, FF: 5632, Layers: 22, Heads: 32, KVHeads: 4, HeadSize: 64})
}

// Huge has 8.0 billion parameters: the shape of Llama 3 8B.
func Huge() arch.Config {
	c := llama("8B", arch.Config{Vocab: 128256, Embd: 4096, FF: 14336, Layers: 32, Heads: 32, KVHeads: 8, HeadSize: 128})
	c.RoPE.FreqBase = 500000
	return c
}

// Others returns models of other architectures than llama, with about a billion parameters per token; hybrids with
// recurrent layers have fewer.
func Others() []arch.Config {
	return []arch.Config{Qwen3(), Gemma3(), Qwen3MoE(), Gemma2(), StarCoder2(), BLOOM(), Qwen35(), GraniteHybrid()}
}

// Qwen3 has 1.0 billion parameters: the widths of Qwen3-1.7B with half of its layers.
func Qwen3() arch.Config {
	return neox("qwen3-1B", arch.Config{
		Arch: "qwen3", Vocab: 151936, Embd: 2048, FF: 6144, Layers: 14, Heads: 16, KVHeads: 8, HeadSize: 128, Tied: true,
	})
}

// Qwen3MoE has 2.7 billion parameters, 0.6 billion per token: layers of the widths of Qwen3-30B-A3B, with half
// of its experts.
func Qwen3MoE() arch.Config {
	return neox("qwen3moe-2.7B", arch.Config{
		Arch: "qwen3moe", Vocab: 32000, Embd: 2048, FF: 6144, Layers: 8, Heads: 32, KVHeads: 4, HeadSize: 128,
		Experts: 64, ExpertsUsed: 8, ExpertFF: 768, Gating: arch.GatingSoftMax, NormalizedExperts: true,
	})
}

// Qwen3MoE8B has 8.1 billion parameters, 1.0 billion per token: a quarter of the layers of Qwen3-30B-A3B.
func Qwen3MoE8B() arch.Config {
	c := Qwen3MoE()
	c.Name, c.Vocab, c.Layers, c.Experts = "qwen3moe-8B", 151936, 12, 128
	return c
}

// Gemma3 has 1.0 billion parameters: the shape of Gemma3-1B.
func Gemma3() arch.Config {
	return neox("gemma3-1B", arch.Config{
		Arch: "gemma3", Vocab: 262144, Embd: 1152, FF: 6912, Layers: 26, Heads: 4, KVHeads: 1, HeadSize: 256, Tied: true,
		Window: 512, WindowPattern: 6, LocalFreqBase: 10000, EmbdScale: float32(math.Sqrt(1152)),
	})
}

// Gemma2 has 1.1 billion parameters: the widths of Gemma-2-2B with 6 of its layers. Scores and logits have a
// softcap.
func Gemma2() arch.Config {
	return neox("gemma2-1B", arch.Config{
		Arch: "gemma2", Vocab: 256000, Embd: 2304, FF: 9216, Layers: 6, Heads: 8, KVHeads: 4, HeadSize: 256, Tied: true,
		Window: 4096, WindowPattern: 2, AttnSoftcap: 50, LogitSoftcap: 30, LocalFreqBase: 10000, EmbdScale: float32(math.Sqrt(2304)),
	})
}

// StarCoder2 has 1.0 billion parameters: the widths of StarCoder2-3B with 9 of its layers. It has LayerNorm,
// biases and a feed-forward network without gate.
func StarCoder2() arch.Config {
	return layerNorm(neox("starcoder2-1B", arch.Config{
		Arch: "starcoder2", Vocab: 49152, Embd: 3072, FF: 12288, Layers: 9, Heads: 24, KVHeads: 2, HeadSize: 128, Tied: true,
	}))
}

// BLOOM has 1.1 billion parameters: the shape of BLOOM-1b1. It has ALiBi, and otherwise the parts of
// StarCoder2.
func BLOOM() arch.Config {
	return layerNorm(withRoPE("bloom-1.1B", arch.Config{
		Arch: "bloom", Vocab: 250880, Embd: 1536, FF: 6144, Layers: 24, Heads: 16, KVHeads: 16, HeadSize: 96, Tied: true,
		FusedQKV: true, MaxALiBiBias: 8,
	}, ggml.RoPENorm))
}

// Qwen35 has 0.8 billion parameters: the shape of Qwen3.5-0.8B. Three of four layers have the gated delta rule.
func Qwen35() arch.Config {
	c := neox("qwen35-0.8B", arch.Config{
		Arch: "qwen35", Vocab: 248320, Embd: 1024, FF: 3584, Layers: 24, Heads: 8, KVHeads: 2, HeadSize: 256, Tied: true,
		StateSize: 128, StateHeads: 16, StateKHeads: 16, Inner: 2048, ConvLength: 4, AttentionStep: 4,
	})
	c.RoPE.Mode, c.RoPE.Dims, c.RoPE.Sections, c.RoPE.FreqBase = ggml.RoPEInterleaved, 64, [4]int{11, 11, 10, 0}, 10_000_000
	c.Context = 1 << 18
	return c
}

// GraniteHybrid has 0.34 billion parameters: the shape of Granite-4.0-H-350M. Of 32 layers four have attention, the
// others Mamba-2.
func GraniteHybrid() arch.Config {
	c := withRoPE("granitehybrid-0.3B", arch.Config{
		Arch: "granitehybrid", Vocab: 100352, Embd: 768, FF: 2048, Layers: 32, Heads: 12, KVHeads: 4, HeadSize: 64, Tied: true,
		KVHeadsAt: make([]int, 32), NoRoPEStep: 1, EmbdScale: 12, ResidualScale: 0.246, AttnScale: 1.0 / 64, LogitScale: 3,
		StateSize: 128, StateHeads: 48, StateKHeads: 1, Inner: 1536, ConvLength: 4,
	}, ggml.RoPENorm)
	for _, layer := range []int{10, 13, 17, 27} {
		c.KVHeadsAt[layer] = c.KVHeads
	}
	c.Context = 1 << 15
	return c
}

// layerNorm adds LayerNorm to a shape.
func layerNorm(c arch.Config) arch.Config {
	c.RMSEps, c.LayerNormEps = 0, c.RMSEps
	return c
}

func llama(name string, c arch.Config) arch.Config {
	c.Arch = "llama"
	return withRoPE(name, c, ggml.RoPENorm)
}

func neox(name string, c arch.Config) arch.Config { return withRoPE(name, c, ggml.RoPENeoX) }

func withRoPE(name string, c arch.Config, mode ggml.RoPEMode) arch.Config {
	c.Name, c.Context, c.RMSEps = name, 4096, 1e-5
	c.RoPE = ggml.RoPE{
		Dims: c.HeadSize, Mode: mode, FreqBase: 10000, FreqScale: 1,
		TrainedCtx: c.Context, AttnFactor: 1, BetaFast: 32, BetaSlow: 1,
	}
	return c
}

// Vocabulary returns a vocabulary with this number of tokens; tokens of [Text] are spread over it.
func Vocabulary(tokens int) (tokenizer.KeyValues, error) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{Text(1, 20_000)}), tokenizer.TrainOptions{VocabSize: min(tokens, 4096)})
	if err != nil {
		return nil, err
	}
	trained, apart := c.Tokens, tokens/len(c.Tokens)
	c.Tokens, c.Types = make([]string, tokens), make([]tokenizer.TokenType, tokens)
	for i := range c.Tokens {
		c.Tokens[i], c.Types[i] = fmt.Sprintf("unused%d", i), tokenizer.Unused
		if n := i / apart; i%apart == 0 && n < len(trained) {
			c.Tokens[i], c.Types[i] = trained[n], tokenizer.Normal
		}
	}
	for _, id := range []*tokenizer.ID{&c.BOS, &c.EOS, &c.EOT, &c.Unknown, &c.Padding} {
		if *id >= 0 {
			*id *= tokenizer.ID(apart)
			c.Types[*id] = tokenizer.Control
		}
	}
	t, err := tokenizer.New(c)
	if err != nil {
		return nil, err
	}
	return t.KeyValues(), nil
}

// Text returns random words from three thousand.
func Text(seed uint64, words int) string {
	rng, text := rand.New(rand.NewPCG(seed, 1)), make([]byte, 0, 8*words)
	for range words {
		n := rng.IntN(3000)
		for range 2 + n%4 {
			text = append(text, "bdfgklmnprstvz"[n%14], "aeiou"[n/14%5])
			n = n*7/5 + 11
		}
		text = append(text, ' ')
	}
	return string(text)
}

// File writes a model of the shape with its matrices in the type, unless the folder already has it, and returns
// its path. It uses little memory, whatever the size of the model.
func File(folder, name string, c arch.Config, t ggml.Type) (string, error) {
	path := filepath.Join(folder, fmt.Sprintf("%s-%v.gguf", name, t))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	return path, Write(path, c, t)
}

// Write writes a model of the shape with its matrices in the type, and with additional keys.
func Write(path string, c arch.Config, t ggml.Type, keys ...tokenizer.KeyValue) error {
	g, err := ggml.NewGGUF()
	if err != nil {
		return err
	}
	defer g.Close()
	if err := c.WriteKeys(g); err != nil {
		return err
	}
	for _, kv := range keys {
		if err := g.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	a, err := arch.Resolve(c)
	if err != nil {
		return err
	}
	for _, s := range a.Weights() {
		if s.Optional && s.Kind != "ssm_conv1d" { // stock adds a convolution's bias unasked
			continue
		}
		typ := t
		if !s.IsConvertible() {
			typ = ggml.F32
		}
		if err := add(g, s, typ, values(s, c.Layers)); err != nil {
			return fmt.Errorf("tensor %s: %w", s.Name, err)
		}
	}
	return g.WriteFile(path)
}

// poolRows is the number of different rows of a tensor: more would take most of the time and not change the
// measurements.
const poolRows = 256

// values returns the function that makes the values of a weight: its own, ones for vectors, or a normal distribution.
func values(s *arch.Weight, layers int) func(*rand.Rand, []float32) {
	sigma := 0.02
	if s.Residual {
		sigma /= math.Sqrt(float64(2 * layers))
	}
	switch {
	case s.Init != nil:
		return s.Init
	case len(s.Shape) < 2:
		return func(_ *rand.Rand, values []float32) {
			for i := range values {
				values[i] = 1
			}
		}
	}
	return func(rng *rand.Rand, values []float32) {
		for i := range values {
			values[i] = float32(sigma * rng.NormFloat64())
		}
	}
}

// add adds a tensor that repeats a few rows.
func add(g *ggml.GGUF, s *arch.Weight, t ggml.Type, fill func(*rand.Rand, []float32)) error {
	columns, rows := s.Shape[0], int64(1)
	for _, n := range s.Shape[1:] {
		rows *= n
	}
	info := ggml.GGUFTensor{Name: s.Name, Type: t, Shape: s.Shape}
	return g.AddTensorFrom(info, func(w io.Writer) error {
		rng := rand.New(rand.NewPCG(uint64(len(s.Name)), uint64(columns)))
		pool := min(rows, poolRows)
		values := make([]float32, pool*columns)
		fill(rng, values)
		raw := make([]byte, pool*t.RowSize(columns))
		if err := ggml.Quantize(raw, t, values, ggml.QuantizeOptions{RowLen: int(columns)}); err != nil {
			return err
		}
		for left := rows; left > 0; left -= pool {
			if _, err := w.Write(raw[:min(pool, left)*t.RowSize(columns)]); err != nil {
				return err
			}
		}
		return nil
	})
}
