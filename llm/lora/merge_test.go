package lora_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// everything are options that adapt all matrices of the model.
func everything(m *model.Model, rank int, seed uint64) lora.Options {
	o := lora.Options{Rank: rank, Alpha: 6, Seed: seed, Ranks: map[string]int{"token_embd": rank + 1, "attn_v": 1}}
	if !m.Config().Tied {
		o.Ranks["output"] = rank
	}
	return o
}

func mergeTo(t *testing.T, m *model.Model, adapters []lora.Scaled, o lora.MergeOptions) (*model.Model, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "merged.gguf")
	require.NoError(t, lora.MergeTo(context.Background(), path, m, adapters, o))
	merged := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { merged.Close() })
	return merged, path
}

func join(adapters []lora.Scaled) model.Adapters {
	joined := model.Adapters{}
	for _, s := range adapters {
		joined = lora.Join(joined, s.Adapter.WithScale(s.Scale))
	}
	return joined
}

// exactWeight is W + Σ scale·B·A in float64, by the definition.
func exactWeight(t *testing.T, m *model.Model, base string, joined []model.LoRAPair) []float64 {
	t.Helper()
	w := m.Weight(base)
	exact := refmath.From(floats(t, w)).Data
	for _, d := range joined {
		for i, v := range change(t, lora.Pair{Base: base, A: d.A, B: d.B}, w.Shape(), float64(d.Scale)) {
			exact[i] += v
		}
	}
	return exact
}

// change returns the update scale·B·A of a pair in float64, for a matrix of the given shape.
func change(t *testing.T, p lora.Pair, shape []int64, scale float64) []float64 {
	t.Helper()
	in, rank := int(shape[0]), p.Rank()
	a, b := floats(t, p.A), floats(t, p.B)
	values := make([]float64, shape[0]*shape[1])
	for i := range values {
		row, column := i/in, i%in
		for k := range rank {
			if p.Base == "token_embd.weight" {
				values[i] += scale * float64(b[column*rank+k]) * float64(a[row*rank+k])
			} else {
				values[i] += scale * float64(b[row*rank+k]) * float64(a[k*in+column])
			}
		}
	}
	return values
}

// The merged model computes what base plus adapters compute: for several adapters with different ranks and scales, one
// of them applied twice.
func TestMergeEqualsAdapters(t *testing.T) {
	for _, tied := range []bool{false, true} {
		m := fileModel(t, tied, ggml.F32)
		first, second := trained(t, m, everything(m, 4, 1)), trained(t, m, everything(m, 7, 2))
		for name, adapters := range map[string][]lora.Scaled{
			"one":     {{first, 1}},
			"two":     {{first, 0.75}, {second, -0.5}},
			"twice":   {{first, 0.25}, {second, 0.5}, {first, 0.5}},
			"scale 0": {{first, 0}, {second, 1}},
		} {
			merged, _ := mergeTo(t, m, adapters, lora.MergeOptions{Threads: 2})
			require.Equal(t, false, merged.Config().Tied, "an adapter of a tied embedding needs an output of its own")
			joined := join(adapters)
			base, want := losses(t, m, nil), losses(t, m, joined)
			// Losses of up to 11, whose sums are in another order here.
			require.Less(t, refmath.MaxAbsDiff(losses(t, merged, nil), want), 5e-5, "%s, tied %v", name, tied)
			require.Greater(t, refmath.MaxAbsDiff(base, want), 0.05, "the adapter must do something")
			for _, s := range llmtest.Declared(merged) {
				from := s.Name
				if m.Weight(from) == nil {
					from = "token_embd.weight" // the output of a tied model
				}
				got := floats(t, merged.Weight(s.Name))
				require.Less(t, refmath.MaxAbsDiff(got, exactWeight(t, m, from, joined[s.Name])), 2e-6, s.Name)
			}
		}
	}
}

// A tied model stays tied when no adapter changes its embedding.
func TestMergeKeepsTied(t *testing.T) {
	m := fileModel(t, true, ggml.F32)
	merged, _ := mergeTo(t, m, []lora.Scaled{{trained(t, m, lora.Options{Rank: 4}), 1}}, lora.MergeOptions{})
	require.True(t, merged.Config().Tied)
	require.Equal(t, floats(t, m.Weight("token_embd.weight")), floats(t, merged.Weight("token_embd.weight")))
}

// Values that are converted are off by at most half a step of their block.
func TestMergeQuantised(t *testing.T) {
	m := fileModel(t, false, ggml.Q8_0)
	adapters := []lora.Scaled{{trained(t, m, everything(m, 4, 1)), 1}, {trained(t, m, everything(m, 2, 2)), 0.5}}
	joined := join(adapters)
	merged, _ := mergeTo(t, m, adapters, lora.MergeOptions{})
	for _, s := range llmtest.Declared(m) {
		w := merged.Weight(s.Name)
		require.Equal(t, m.Weight(s.Name).Type(), w.Type())
		if w.Type() != ggml.Q8_0 {
			require.Equal(t, floats(t, m.Weight(s.Name)), floats(t, w))
			continue
		}
		got, exact := floats(t, w), exactWeight(t, m, s.Name, joined[s.Name])
		for from := 0; from < len(exact); from += 32 {
			var largest float64
			for _, v := range exact[from : from+32] {
				largest = max(largest, math.Abs(v))
			}
			// Half a step of 1/127 of the largest, and the scale's rounding to F16.
			bound := largest*(0.5/127+1.0/1024) + 1e-6
			require.LessOrEqual(t, refmath.MaxAbsDiff(got[from:from+32], exact[from:from+32]), bound, s.Name)
		}
	}
	want := losses(t, m, joined)
	require.Less(t, refmath.RelativeError(losses(t, merged, nil), want), 0.04)
	require.Greater(t, refmath.RelativeError(losses(t, m, nil), want), 0.2)
}

// Every type can be the base's and the result's.
func TestMergeTypes(t *testing.T) {
	types := map[ggml.Type]float64{ggml.F32: 1e-6, ggml.F16: 1e-3, ggml.BF16: 1e-2, ggml.Q8_0: 1e-2, ggml.Q4_0: 0.2}
	for from := range types {
		m := fileModel(t, false, from)
		adapters := []lora.Scaled{{trained(t, m, everything(m, 3, 1)), 1}}
		joined := join(adapters)
		for to, bound := range types {
			merged, _ := mergeTo(t, m, adapters, lora.MergeOptions{Type: &to})
			for _, s := range llmtest.Declared(m) {
				w := merged.Weight(s.Name)
				if len(s.Shape) == 1 {
					require.Equal(t, ggml.F32, w.Type(), s.Name)
					continue
				}
				require.Equal(t, to, w.Type(), s.Name)
				require.Less(t, refmath.RelativeError(floats(t, w), exactWeight(t, m, s.Name, joined[s.Name])), bound, "%s from %v to %v", s.Name, from, to)
			}
		}
	}
}

// Unchanged tensors are copied byte by byte, and so is a whole unchanged file.
func TestMergeNothing(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.BF16, ggml.Q4_0} {
		m := fileModel(t, true, typ)
		a := trained(t, m, everything(m, 4, 1))
		fresh := newAdapter(t, m, everything(m, 4, 1))
		for name, adapters := range map[string][]lora.Scaled{"no adapter": nil, "scale 0": {{a, 0}}, "untrained": {{fresh, 1}}} {
			_, path := mergeTo(t, m, adapters, lora.MergeOptions{Type: &typ})
			g := need.Value(ggml.OpenGGUF(path))(t)
			require.Contains(t, maps.Collect(g.Keys()), "general.file_type")
			require.NoError(t, g.Close())
			_, path = mergeTo(t, m, adapters, lora.MergeOptions{})
			require.Equal(t, content(t, m.Path), content(t, path), "%s, %v", name, typ)
		}
	}
	m := fileModel(t, false, ggml.Q4_0)
	merged, _ := mergeTo(t, m, []lora.Scaled{{trained(t, m, lora.Options{Rank: 2, Targets: []string{"attn_q"}}), 1}}, lora.MergeOptions{})
	for _, s := range llmtest.Declared(m) {
		want, got := make([]byte, m.Weight(s.Name).NumBytes()), make([]byte, merged.Weight(s.Name).NumBytes())
		_, err := m.Weight(s.Name).ReadAt(want, 0)
		require.NoError(t, err)
		_, err = merged.Weight(s.Name).ReadAt(got, 0)
		require.NoError(t, err)
		if s.Name == "blk.0.attn_q.weight" || s.Name == "blk.1.attn_q.weight" {
			require.NotEqual(t, want, got, s.Name)
		} else {
			require.Equal(t, want, got, s.Name)
		}
	}
}

// A large matrix is computed in several blocks of rows, the last one smaller.
func TestMergeBlocks(t *testing.T) {
	c := tinyConfig(false)
	c.Vocab, c.Layers = 70001, 1
	m := newModel(t, c, t.Cleanup)
	a := trained(t, m, lora.Options{Rank: 3, Alpha: 3, Targets: []string{"token_embd", "output"}})
	var reports []int64
	merged, path := mergeTo(t, m, []lora.Scaled{{a, 1}}, lora.MergeOptions{Progress: func(done, total int64) {
		reports = append(reports, done, total)
	}})
	joined := a.WithScale(1)
	for _, name := range []string{"token_embd.weight", "output.weight"} {
		require.Less(t, refmath.MaxAbsDiff(floats(t, merged.Weight(name)), exactWeight(t, m, name, joined[name])), 1e-6, name)
	}
	for i := 2; i < len(reports); i += 2 {
		require.Greater(t, reports[i], reports[i-2])
		require.Equal(t, reports[1], reports[i+1])
	}
	require.Equal(t, reports[len(reports)-1], reports[len(reports)-2])
	info := need.Value(os.Stat(path))(t)
	require.InEpsilon(t, info.Size(), reports[1], 0.01)
}

// The metadata is kept, except for keys that describe the type.
func TestMergeKeys(t *testing.T) {
	m := fileModel(t, false, ggml.F32)
	keys := func(o lora.MergeOptions) map[string]any {
		g := need.Value(lora.Merge(context.Background(), m, nil, o))(t)
		defer g.Close()
		return maps.Collect(g.Keys())
	}
	base := maps.Collect(m.GGUF().Keys())
	require.Equal(t, base, keys(lora.MergeOptions{}))
	to := ggml.Q8_0
	base["general.file_type"], base["general.quantization_version"] = uint32(7), uint32(2)
	require.Equal(t, base, keys(lora.MergeOptions{Type: &to}))
}

func TestMergeFaults(t *testing.T) {
	m := fileModel(t, false, ggml.F32)
	ctx := context.Background()
	folder := t.TempDir()
	path := filepath.Join(folder, "merged.gguf")
	a := trained(t, m, lora.Options{Rank: 2, Alpha: 2})
	merge := func(path string, o lora.MergeOptions, adapters ...lora.Scaled) error {
		return lora.MergeTo(ctx, path, m, adapters, o)
	}
	require.ErrorContains(t, merge(m.Path, lora.MergeOptions{}, lora.Scaled{Adapter: a, Scale: 1}), "is the base model itself")
	link := filepath.Join(folder, "link.gguf")
	require.NoError(t, os.Symlink(m.Path, link))
	require.ErrorContains(t, merge(link, lora.MergeOptions{}), "is the base model itself")
	parts := need.Value(m.GGUF().WriteParts(filepath.Join(t.TempDir(), "split"), ggml.PartOptions{MaxTensors: 4}))(t)
	split := need.Value(model.Load(parts[0], model.LoadOptions{}))(t)
	defer split.Close()
	require.ErrorContains(t, lora.MergeTo(ctx, parts[1], split, nil, lora.MergeOptions{}), parts[1]+": is the base model itself")

	saved := filepath.Join(folder, "adapter.gguf")
	require.NoError(t, a.Save(saved, lora.SaveOptions{}))
	loaded := load(t, saved, m)
	require.ErrorContains(t, merge(saved, lora.MergeOptions{}, lora.Scaled{Adapter: loaded, Scale: 1}), "is an adapter to be merged")

	require.ErrorContains(t, merge(path, lora.MergeOptions{}, lora.Scaled{Scale: 1}), "adapter 0 to merge is nil")
	require.ErrorContains(t, merge(path, lora.MergeOptions{}, lora.Scaled{Adapter: a, Scale: float32(math.Inf(1))}), "scale +Inf")
	require.ErrorContains(t, merge(path, lora.MergeOptions{Threads: -1}), "-1 threads")
	closed := trained(t, m, lora.Options{Rank: 2})
	require.NoError(t, closed.Close())
	require.ErrorIs(t, merge(path, lora.MergeOptions{}, lora.Scaled{Adapter: closed, Scale: 1}), ggml.ErrClosed)
	other := trained(t, newModel(t, goldenConfig(), t.Cleanup), lora.Options{Rank: 2})
	require.ErrorContains(t, merge(path, lora.MergeOptions{}, lora.Scaled{Adapter: other, Scale: 1}), "blk.2.attn_q.weight: the model has no such tensor")

	for typ, want := range map[ggml.Type]string{
		ggml.Q4_K: "rows of q4_K must be multiples of 256", ggml.IQ2XXS: "iq2_xxs needs an importance matrix", ggml.I32: "no conversion to i32",
	} {
		err := merge(path, lora.MergeOptions{Type: &typ}, lora.Scaled{Adapter: a, Scale: 1})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "token_embd.weight [64 96]")
		require.ErrorContains(t, err, "and 6 more")
	}
	// Nothing is written that does not read back finite, and the file that was there stays.
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q5_1, ggml.IQ4NL} {
		err := merge(path, lora.MergeOptions{Type: &typ}, lora.Scaled{Adapter: a, Scale: 1e10})
		require.ErrorContains(t, err, fmt.Sprintf("too large for %v; use f32 or bf16", typ))
		require.Equal(t, "old", string(content(t, path)))
	}
	require.NoError(t, os.Remove(path))
	wide := ggml.BF16
	require.NoError(t, merge(path, lora.MergeOptions{Type: &wide}, lora.Scaled{Adapter: a, Scale: 1e10}))
	require.NoError(t, os.Remove(path))
	if _, err := os.Stat("/dev/full"); err == nil {
		require.ErrorContains(t, merge("/dev/full", lora.MergeOptions{}), "no space left on device")
	}

	stopped, stop := context.WithCancelCause(ctx)
	reason := errors.New("enough")
	o := lora.MergeOptions{Progress: func(int64, int64) { stop(reason) }}
	require.ErrorIs(t, lora.MergeTo(stopped, path, m, []lora.Scaled{{a, 1}}, o), reason)
	require.NoFileExists(t, path)
	files := need.Value(os.ReadDir(folder))(t)
	require.Len(t, files, 2, "only the link and the adapter")
}

func BenchmarkMerge(b *testing.B) {
	c := tinyConfig(false)
	c.Embd, c.FF, c.HeadSize, c.Vocab, c.Layers = 1024, 2816, 256, 4096, 2
	m := newModel(b, c, func(f func()) { b.Cleanup(f) })
	a := need.Value(lora.New(m, lora.Options{Rank: 16}))(b)
	defer a.Close()
	for _, p := range a.Pairs() {
		require.NoError(b, p.B.Memset(0x3c)) // about 0.01
	}
	for _, typ := range []ggml.Type{ggml.F32, ggml.Q8_0, ggml.Q4_K} {
		b.Run(typ.String(), func(b *testing.B) {
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "merged.gguf")
				require.NoError(b, lora.MergeTo(context.Background(), path, m, []lora.Scaled{{a, 1}}, lora.MergeOptions{Type: &typ}))
			}
			b.ReportMetric(float64(c.NumParameters())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mparam/s")
		})
	}
}
