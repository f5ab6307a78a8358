package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/examples/internal/merging"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"export-lora": main})
}

func TestScripts(t *testing.T) {
	clitest.RunScripts(t, testscript.Params{
		Dir:   "testdata",
		Setup: func(env *testscript.Env) error { return writeFiles(env.WorkDir) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"equal-losses": equalLosses,
			"types":        types,
		},
	})
}

func tinyConfig() arch.Config {
	return arch.Config{
		Arch: "llama", Name: "Tiny", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16,
		RMSEps: 1e-5,
		RoPE:   ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// writeFiles writes a model in two types, and adapters of two ranks, also in PEFT's format.
func writeFiles(folder string) error {
	m, err := model.New(tinyConfig(), nil, 7)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, t := range []ggml.Type{ggml.F32, ggml.Q8_0} {
		err := m.Save(filepath.Join(folder, "base-"+t.String()+".gguf"), model.SaveOptions{
			Type: func(name string, old ggml.Type) ggml.Type {
				if m.Weight(name).NumDims() < 2 {
					return old
				}
				return t
			},
			Change: func(string) func([]float32) error { return func(v []float32) error { return addNoise(v) } },
		})
		if err != nil {
			return err
		}
	}
	for _, rank := range []int{3, 5} {
		if err := writeAdapter(m, rank, filepath.Join(folder, fmt.Sprintf("rank%d.gguf", rank))); err != nil {
			return err
		}
	}
	return nil
}

func addNoise(values []float32) error {
	rng := rand.New(rand.NewPCG(uint64(len(values)), 2))
	for i := range values {
		values[i] += float32(0.1 * rng.NormFloat64())
	}
	return nil
}

func writeAdapter(m *model.Model, rank int, path string) error {
	a, err := lora.New(m, lora.Options{Rank: rank, Alpha: 6, Seed: uint64(rank)})
	if err != nil {
		return err
	}
	defer a.Close()
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		if err := addNoise(values); err != nil {
			return err
		}
		if err := ggml.Write(p.B, values); err != nil {
			return err
		}
	}
	if err := a.SavePEFT(strings.TrimSuffix(path, ".gguf")+"-peft", lora.PEFTOptions{}); err != nil {
		return err
	}
	return a.Save(path, lora.SaveOptions{})
}

// equalLosses: merged.gguf base.gguf [adapter.gguf scale]... requires that the first model computes the same as
// the second with the adapters.
func equalLosses(ts *testscript.TestScript, neg bool, args []string) {
	merged, err := losses(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	for i := 2; i < len(args); i += 2 {
		args[i] = ts.MkAbs(args[i])
	}
	want, err := losses(ts.MkAbs(args[1]), args[2:])
	ts.Check(err)
	if d := refmath.MaxAbsDiff(merged, want); (d > 1e-5) != neg {
		ts.Fatalf("the losses differ by %g", d)
	}
}

func losses(path string, adapters []string) ([]float32, error) {
	m, err := model.Load(path, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	loaded := model.Adapters{}
	for ; len(adapters) > 0; adapters = adapters[2:] {
		a, err := lora.Load(adapters[0], m)
		if err != nil {
			return nil, err
		}
		defer a.Close()
		scale, err := strconv.ParseFloat(adapters[1], 32)
		if err != nil {
			return nil, err
		}
		loaded = lora.Join(loaded, a.WithScale(float32(scale)))
	}
	const n = 16
	engine, err := device.NewCPU(1)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	graph, err := lossgraph.New(m, engine, lossgraph.Options{Length: n, Batch: 1, Adapters: loaded})
	if err != nil {
		return nil, err
	}
	defer graph.Close()
	var b lossgraph.Batch
	for i := range int32(n) {
		b.Tokens, b.Targets = append(b.Tokens, i*7%90), append(b.Targets, i*11%90)
	}
	return graph.Compute(context.Background(), b)
}

// types: model.gguf type requires that every matrix has the type.
func types(ts *testscript.TestScript, neg bool, args []string) {
	g, err := ggml.OpenGGUF(ts.MkAbs(args[0]))
	ts.Check(err)
	defer g.Close()
	for t := range g.Tensors() {
		want := "f32"
		if len(t.Shape) > 1 {
			want = args[1]
		}
		if (t.Type.String() != want) != neg {
			ts.Fatalf("%s has type %v", t.Name, t.Type)
		}
	}
}

// Numeric flags accept or reject 0, -1, the largest number, NaN and infinity; -v prints the results.
func TestNumbers(t *testing.T) {
	if clitest.Numbers(t, "export-lora", new(merging.Flags)) == 0 {
		t.Fatal("no numbers")
	}
}
