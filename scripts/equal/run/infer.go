package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// infer computes logits of prefill and decode, with matrices as stored and repacked, with caches of each type,
// with the adapter, with its 16-bit copy, and without; for one sequence and for several.
func (r *results) infer(m *model.Model, adapter *lora.Adapter) {
	half := must(lora.Load(filepath.Join(r.out, "files/adapter-f16.gguf"), m))
	defer half.Close()
	adapters := map[string]model.Adapters{"base": nil, "adapter": scaled(adapter, 0.5), "adapter-f16": scaled(half, 1)}
	for name, a := range adapters {
		for _, cache := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0} {
			r.sequence(m, "sequence-"+name+"-cache-"+cache.String(), inference{adapters: a, cache: cache})
		}
		r.batch(m, "batch-"+name, inference{adapters: a})
	}
	if !r.kernels {
		return
	}
	one := load(r.path, loading{repack: 1})
	defer one.Close()
	several := load(r.path, loading{repack: 3})
	defer several.Close()
	for name, a := range adapters {
		r.sequence(one, "repacked-sequence-"+name, inference{adapters: a, cache: ggml.F16})
		r.batch(several, "repacked-batch-"+name, inference{adapters: a, cache: ggml.F16})
	}
}

// An inference has the settings of one or several sequences.
type inference struct {
	adapters model.Adapters
	cache    ggml.Type
}

const contextLength = 64

func (r *results) sequence(m *model.Model, name string, o inference) {
	rng := rand.New(rand.NewPCG(6, 0))
	s := newSequence(m, r.engine, o)
	defer s.close()
	prompt := s.all(tokens(rng, 33, vocab(m)))
	write(r, "infer/"+name+"/prefill", slices.Concat(prompt...))
	var decoded []float32
	for _, n := range []int{1, 1, 1, 5, 1, 1} { // 5 tokens at once, as for a draft
		decoded = append(decoded, s.next(tokens(rng, n, vocab(m)))...)
	}
	s.rewind(20)
	for range 4 {
		decoded = append(decoded, s.next(tokens(rng, 1, vocab(m)))...)
	}
	write(r, "infer/"+name+"/decode", decoded)
}

// batch starts three sequences, the second with a prefix of the first, and ends the first early.
func (r *results) batch(m *model.Model, name string, o inference) {
	rng := rand.New(rand.NewPCG(7, 0))
	b := newBatch(m, r.engine, 3, o)
	defer b.close()
	first := tokens(rng, 20, vocab(m))
	prompts := [][]int32{first, append(slices.Clone(first[:12]), tokens(rng, 7, vocab(m))...), tokens(rng, 4, vocab(m))}
	var prefill, decoded []float32
	for _, p := range prompts {
		prefill = append(prefill, b.start(p)...)
	}
	write(r, "infer/"+name+"/prefill", prefill)
	for range 4 {
		decoded = append(decoded, slices.Concat(b.step(tokens(rng, 3, vocab(m)))...)...)
	}
	b.end(0)
	for range 4 {
		decoded = append(decoded, slices.Concat(b.step(tokens(rng, 2, vocab(m)))...)...)
	}
	write(r, "infer/"+name+"/decode", decoded)
}
