package lora_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Make an adapter, write it, read it back, and merge it at half its strength.
func Example() {
	folder := must(os.MkdirTemp("", "lora"))
	defer os.RemoveAll(folder)
	m := must(model.New(tinyConfig(false), nil, 1)) // or model.Load
	defer m.Close()

	fresh := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Ranks: map[string]int{"ffn_down": 4}}))
	defer fresh.Close()
	// … train it: fresh.WithScale(1) goes to lossgraph.Options …
	path := filepath.Join(folder, "adapter.gguf")
	check(fresh.Save(path, lora.SaveOptions{Name: "an example"}))

	adapter := must(lora.Load(path, m))
	defer adapter.Close()
	fmt.Println(adapter.Keys["general.name"], "has", len(adapter.Pairs()), "pairs and", adapter.NumParameters(), "parameters")
	merged := filepath.Join(folder, "merged.gguf")
	check(lora.MergeTo(context.Background(), merged, m, []lora.Scaled{{Adapter: adapter, Scale: 0.5}}, lora.MergeOptions{}))
	// Output: an example has 14 pairs and 13568 parameters
}

// Choose targets by PEFT's module names, patterns and layers.
func ExampleOptions() {
	m := must(model.New(tinyConfig(false), nil, 1)) // of two layers
	defer m.Close()
	last := 1
	a := must(lora.New(m, lora.Options{
		Rank: 8, Alpha: 8, RankStabilized: true,
		Targets:    []string{"q_proj", "v_proj", "blk.*.ffn_down.weight"},
		Ranks:      map[string]int{"v_proj": 32},
		LastLayers: &last,
	}))
	defer a.Close()
	for _, p := range a.Pairs() {
		fmt.Printf("%s: rank %d, counts %.3f times\n", p.Base, p.Rank(), a.WithScale(1)[p.Base][0].Scale)
	}
	// Output:
	// blk.1.attn_q.weight: rank 8, counts 2.828 times
	// blk.1.attn_v.weight: rank 32, counts 1.414 times
	// blk.1.ffn_down.weight: rank 8, counts 2.828 times
}

// Write an adapter for PEFT, and read one that PEFT has trained.
func ExampleAdapter_SavePEFT() {
	folder := must(os.MkdirTemp("", "peft"))
	defer os.RemoveAll(folder)
	m := must(model.New(tinyConfig(false), nil, 1)) // or model.Load
	defer m.Close()
	a := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16}))
	defer a.Close()
	check(a.SavePEFT(folder, lora.PEFTOptions{BaseModel: "org/tiny"}))
	// … PeftModel.from_pretrained(base, folder) …
	b := must(lora.Load(folder, m))
	defer b.Close()
	fmt.Println("rank", b.Rank(), "alpha", b.Alpha, "base", b.Keys["general.base_model.0.repo_url"])
	// Output: rank 8 alpha 16 base https://huggingface.co/org/tiny
}

// Join two adapters, and list the matrices that they change.
func ExampleJoin() {
	m := must(model.New(tinyConfig(false), nil, 1)) // or model.Load
	defer m.Close()
	last := 1 // layer
	var list []model.Adapters
	for _, target := range []string{"attn_q", "ffn_up"} {
		a := must(lora.New(m, lora.Options{Rank: 4, Targets: []string{target}, LastLayers: &last}))
		defer a.Close()
		list = append(list, a.WithScale(0.5))
	}
	both := lora.Join(list...) // for infer.SessionOptions
	fmt.Println(slices.Sorted(maps.Keys(both)))
	// Output: [blk.1.attn_q.weight blk.1.ffn_up.weight]
}

// The targets that a model has, and the rank and the strength of each pair of an adapter.
func ExamplePair() {
	m := must(model.New(tinyConfig(false), nil, 1)) // or model.Load
	defer m.Close()
	fmt.Println(lora.Targets(m.Architecture()))
	a := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Targets: []string{"attn_v"}}))
	defer a.Close()
	for _, p := range a.Pairs() {
		fmt.Println(p.Base, p.Rank(), p.A.Shape(), p.B.Shape())
	}
	// Output:
	// [attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down token_embd output]
	// blk.0.attn_v.weight 8 [64 8] [8 32]
	// blk.1.attn_v.weight 8 [64 8] [8 32]
}

// Merge an adapter at half its strength into a model, with the result in Q8_0.
func ExampleMergeOptions() {
	m := must(model.New(tinyConfig(false), nil, 1)) // or model.Load
	defer m.Close()
	a := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16}))
	defer a.Close()
	q8 := ggml.Q8_0
	merged := must(lora.Merge(context.Background(), m, []lora.Scaled{{Adapter: a, Scale: 0.5}}, lora.MergeOptions{Type: &q8}))
	defer merged.Close()
	t, _ := merged.Tensor("blk.0.attn_q.weight")
	fmt.Println(t.Name, t.Type) // merged.WriteFile(path)
	// Output: blk.0.attn_q.weight q8_0
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
