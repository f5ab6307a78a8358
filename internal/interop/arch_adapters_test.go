//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Adapters of every matrix of each architecture have the same effect in stock llama.cpp, and so do the models
// into which they are merged.
func TestInteropArchitectureAdapters(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", "1")
	for _, name := range archs {
		file := filepath.Join(t.TempDir(), name+".gguf")
		strengthen(t, filepath.Join(dir, name+".gguf"), file)
		t.Run(name, func(t *testing.T) {
			testArchitectureAdapters(t, file)
			for _, typ := range []string{"Q8_0", "Q4_K"} {
				testQuantizedAdapters(t, quantized(t, file, typ, "--pure"), typ)
			}
		})
		if strings.HasSuffix(name, "-moe") { // these files test experts
			continue
		}
		t.Run(name+" fused", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fused.gguf")
			fuseQKV(t, file, path)
			if _, err := logitsBy([]string{filepath.Join(stock, "run")}, t.TempDir(), path, []int32{1}); err != nil {
				require.Regexp(t, `tensor 'blk\.\d+\.attn_q\.weight' not found`, err.Error())
				t.Skip("stock does not read it fused")
			}
			testArchitectureAdapters(t, path)
		})
		t.Run(name+" tied", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tied.gguf")
			copyTensors(t, file, path, func(name string) bool { return name != "output.weight" }, nil)
			if m, err := model.Load(path, model.LoadOptions{}); err != nil {
				require.ErrorContains(t, err, "output.weight is missing")
				t.Skip("it has an output matrix always")
			} else {
				require.NoError(t, m.Close())
			}
			testArchitectureAdapters(t, path)
		})
	}
}

func testArchitectureAdapters(t *testing.T, path string) {
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	length := 96
	if ratios := m.Config().Ratios; len(ratios) > 0 { // each compressor makes a key
		length = max(length, slices.Max(ratios)+32)
	}
	tokens := llmtest.RandomTokens(3, length, m.Config().Vocab)
	adapter := savedAdapter(t, m, everyMatrix(m))
	want := stockLogits(t, path, tokens, adapter+"=0.75")
	a := need.Value(lora.Load(adapter, m))(t)
	defer a.Close()
	weights := a.WithScale(0.75)
	for way, got := range ways(t, m, tokens, weights) {
		n := nmse(got, want)
		t.Logf("%s: NMSE %.2g", way, n)
		require.LessOrEqual(t, n, bound, way)
	}
	least := 1.0
	for base := range weights {
		without := maps.Clone(weights)
		delete(without, base)
		n := nmse(ourLogits(t, m, tokens, without), want)
		least = min(least, n)
		// In arctic, experts hardly affect the logits; neither do the coefficients of AltUp.
		if m.Config().Arch != "arctic" && !strings.Contains(base, ".altup_") {
			require.Greater(t, n, 10*bound, "%s must matter", base)
		}
	}
	t.Logf("without one of %d matrices: at least %.2g", len(weights), least)
	n := nmse(stockLogits(t, mergedModel(t, m, a, 0.75, nil), tokens), want)
	t.Logf("merged: NMSE %.2g", n)
	require.LessOrEqual(t, n, bound, "merged")
}

// testQuantizedAdapters repeats this with a quantised base: adapters are as exact as the base, merging to F32
// is exact, and merging to the base's type rounds the sum.
func testQuantizedAdapters(t *testing.T, path, typ string) {
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer m.Close()
	list := []scaled{{savedAdapter(t, m, everyMatrix(m)), 0.75}}
	c := newComparison(t, m, llmtest.RandomTokens(3, 96, m.Config().Vocab))
	for way, e := range c.errors(t, list, list) {
		t.Logf("%s %s: %v", typ, way, e)
		if m.Config().Experts > m.Config().ExpertsUsed { // a token routed to other experts outweighs the rounding of others
			require.LessOrEqual(t, e.rounded, 4*e.stock, "%s %s: %v", typ, way, e)
			continue
		}
		require.True(t, e.withinRounding(), "%s %s: %v", typ, way, e)
	}
	a := need.Value(lora.Load(list[0].path, m))(t)
	defer a.Close()
	exact, f32 := c.stock(t, c.exact, list), ggml.F32
	n := nmse(stockLogits(t, mergedModel(t, m, a, 0.75, &f32), c.tokens), exact)
	t.Logf("%s merged to F32: NMSE %.2g", typ, n)
	require.LessOrEqual(t, n, bound, "%s merged to F32", typ)
	if m.Config().HighCycles > 0 {
		return // with layers that run several times, rounding a matrix has as much effect as an adapter
	}
	effect := nmse(c.plain, exact)
	n = nmse(stockLogits(t, mergedModel(t, m, a, 0.75, nil), c.tokens), exact)
	t.Logf("%s merged: NMSE %.2g, without adapter %.2g", typ, n, effect)
	require.LessOrEqual(t, n, effect/2, "%s merged", typ)
}

// quantized returns the file that llama-quantize makes of another. The norms of qwen4exp's embeddings of several tokens stay
// F32: stock llama.cpp cannot multiply by others.
func quantized(t *testing.T, file, typ string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), typ+".gguf")
	run(t, filepath.Join(stock, "run"), append(append([]string{"llama-quantize", "--tensor-type", "ple_norm=f32"}, flags...), file, path, typ)...)
	return path
}

// mergedModel writes a model with an adapter merged, in a type or the base's, and returns its path.
func mergedModel(t *testing.T, m *model.Model, a *lora.Adapter, scale float32, typ *ggml.Type) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "merged.gguf")
	require.NoError(t, lora.MergeTo(context.Background(), path, m, []lora.Scaled{{Adapter: a, Scale: scale}}, lora.MergeOptions{Type: typ}))
	return path
}

// everyMatrix adapts every matrix for which stock llama.cpp accepts an adapter: not a tied embedding.
func everyMatrix(m *model.Model) lora.Options {
	o := lora.Options{Rank: 8, Alpha: 16, Seed: 1, Ranks: map[string]int{}}
	if !m.Config().Tied {
		o.Ranks = everywhere(4)
	}
	for _, w := range m.Architecture().Weights() {
		if w.Named {
			o.Ranks[string(w.Kind)] = 4
		}
		if w.NoLoRA {
			delete(o.Ranks, string(w.Kind))
		}
	}
	return o
}

// strengthen scales norms of stock's random models so that the layers matter: unchanged, most outputs are close
// to zero.
func strengthen(t *testing.T, from, to string) {
	t.Helper()
	g := need.Value(ggml.OpenGGUF(from))(t)
	defer g.Close()
	kind := need.Value(ggml.GGUFValue[string](g, "general.architecture"))(t)
	for info := range g.Tensors() {
		var change func(v float32) float32
		switch {
		case strings.HasSuffix(info.Name, "_norm.weight"):
			change = func(v float32) float32 { return 1 + v }
		case strings.HasSuffix(info.Name, ".scale") && kind == "hrm_text": // its layers share matrices: with different scales nothing can be merged
			change = func(float32) float32 { return 0.75 }
		case strings.HasSuffix(info.Name, ".scale"):
			change = func(v float32) float32 { return 0.5 + 4*v*v/(v*v+0.01) }
		default:
			continue
		}
		r := need.Value(g.TensorData(info.Name))(t)
		values := make([]float32, info.NumElements())
		require.NoError(t, binary.Read(r, binary.LittleEndian, values))
		for i, v := range values {
			values[i] = change(v)
		}
		require.NoError(t, g.SetTensorData(info.Name, info.Type, func(w io.Writer) error {
			return binary.Write(w, binary.LittleEndian, values)
		}))
	}
	require.NoError(t, g.WriteFile(to))
}

// copyTensors copies the tensors of a file that keep selects, and adds others.
func copyTensors(t *testing.T, from, to string, keep func(name string) bool, add func(g, old *ggml.GGUF)) {
	t.Helper()
	old := need.Value(ggml.OpenGGUF(from))(t)
	defer old.Close()
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, g.CopyKeys(old))
	for info := range old.Tensors() {
		if keep(info.Name) {
			require.NoError(t, g.CopyTensor(old, info.Name))
		}
	}
	if add != nil {
		add(g, old)
	}
	require.NoError(t, g.WriteFile(to))
}

// fuseQKV writes the query, key and value matrices of a model as one matrix with one bias. It omits their
// scales, which differ.
func fuseQKV(t *testing.T, from, to string) {
	parts := []string{"attn_q", "attn_k", "attn_v"}
	isPart := func(name string) bool {
		fields := strings.Split(name, ".")
		return len(fields) == 4 && slices.Contains(parts, fields[2])
	}
	keep := func(name string) bool { return !isPart(name) }
	copyTensors(t, from, to, keep, func(g, old *ggml.GGUF) {
		for layer := 0; ; layer++ {
			prefix := fmt.Sprintf("blk.%d.", layer)
			if _, ok := old.Tensor(prefix + "attn_q.weight"); !ok {
				return
			}
			for _, kind := range []string{".weight", ".bias"} {
				if _, ok := old.Tensor(prefix + "attn_q" + kind); !ok {
					continue
				}
				concatenate(t, g, old, prefix+"attn_qkv"+kind, prefix+"attn_q"+kind, prefix+"attn_k"+kind, prefix+"attn_v"+kind)
			}
		}
	})
}

// concatenate joins tensors of a file along their last dimension.
func concatenate(t *testing.T, g, old *ggml.GGUF, name string, parts ...string) {
	var joined ggml.GGUFTensor
	var data []byte
	for _, part := range parts {
		info, ok := old.Tensor(part)
		require.True(t, ok, part)
		r := need.Value(old.TensorData(part))(t)
		values := need.Value(io.ReadAll(r))(t)
		data = append(data, values...)
		last := len(info.Shape) - 1
		if joined.Shape == nil {
			joined = ggml.GGUFTensor{Name: name, Type: info.Type, Shape: slices.Clone(info.Shape)}
		} else {
			joined.Shape[last] += info.Shape[last]
		}
	}
	require.NoError(t, g.AddTensorFrom(joined, func(w io.Writer) error {
		_, err := bytes.NewReader(data).WriteTo(w)
		return err
	}))
}
