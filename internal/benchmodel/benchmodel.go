// Package benchmodel makes the models that the benchmarks run: random weights
// in the shapes and types of real ones.
package benchmodel

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/model"
)

// Small is a model of 28 million parameters.
func Small() model.Config {
	return model.Config{
		Arch: "llama", Vocab: 8192, Context: 512, Embd: 512, FF: 1408, Layers: 8, Heads: 8, KVHeads: 4, HeadSize: 64,
		RMSEps: 1e-5, Tied: true, RoPE: rope(512),
	}
}

// Medium is a model of 0.3 billion parameters.
func Medium() model.Config {
	return model.Config{
		Arch: "llama", Vocab: 32000, Context: 4096, Embd: 1024, FF: 2816, Layers: 24, Heads: 16, KVHeads: 4, HeadSize: 64,
		RMSEps: 1e-5, RoPE: rope(4096),
	}
}

// Large has the shape of TinyLlama: 1.1 billion parameters.
func Large() model.Config {
	return model.Config{
		Arch: "llama", Vocab: 32000, Context: 4096, Embd: 2048, FF: 5632, Layers: 22, Heads: 32, KVHeads: 4, HeadSize: 64,
		RMSEps: 1e-5, RoPE: rope(4096),
	}
}

func rope(context int) ggml.RoPE {
	return ggml.RoPE{Dims: 64, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: context, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
}

// File makes the model with matrices of the type, unless the folder has it from
// an earlier run, and returns its path.
func File(folder, name string, c model.Config, t ggml.Type) (string, error) {
	path := filepath.Join(folder, fmt.Sprintf("%s-%v.gguf", name, t))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	g := ggml.NewGGUF()
	defer g.Close()
	if err := c.WriteKeys(g); err != nil {
		return "", err
	}
	for _, s := range c.Tensors() {
		typ, sigma := t, 0.02
		if len(s.Shape) < 2 {
			typ, sigma = ggml.F32, 0
		}
		if strings.Contains(s.Name, "attn_output") || strings.Contains(s.Name, "ffn_down") {
			sigma /= math.Sqrt(float64(2 * c.Layers))
		}
		if err := add(g, s, typ, sigma); err != nil {
			return "", err
		}
	}
	return path, g.WriteFile(path)
}

// add writes some random rows again and again: to quantise a billion different
// numbers would take longer than the benchmark. A tensor with a standard
// deviation of 0 is all ones.
func add(g *ggml.GGUF, s model.TensorShape, t ggml.Type, sigma float64) error {
	columns, rows := s.Shape[0], int64(1)
	for _, n := range s.Shape[1:] {
		rows *= n
	}
	info := ggml.GGUFTensor{Name: s.Name, Type: t, Shape: s.Shape}
	return g.AddTensorFrom(info, func(w io.Writer) error {
		rng := rand.New(rand.NewPCG(uint64(len(s.Name)), uint64(columns)))
		pool := min(rows, 61)
		values := make([]float32, pool*columns)
		for i := range values {
			values[i] = 1
			if sigma > 0 {
				values[i] = float32(sigma * rng.NormFloat64())
			}
		}
		raw := make([]byte, pool*t.RowSize(columns))
		if err := ggml.Quantize(raw, t, values, int(columns), nil); err != nil {
			return err
		}
		for written := int64(0); written < rows; written += pool {
			n := min(pool, rows-written)
			if _, err := w.Write(raw[:n*t.RowSize(columns)]); err != nil {
				return err
			}
		}
		return nil
	})
}
