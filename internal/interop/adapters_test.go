//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// adapterShare is the NMSE that an adapter may add to its base's.
const adapterShare = 1e-6

// variantFactor limits the distance of our logits from stock's, relative to the distance of two of stock's CPU
// plugins from each other.
const variantFactor = 2

// An adapter is as exact as its base, whatever the base's type: in prefill, repacked or not, token by token,
// and as one of several sequences.
func TestInteropAdaptersOfTypes(t *testing.T) {
	bases := []*adaptedBase{}
	eightBits := 0.0 // distance between stock's plugins on a base whose activations are rounded to 8 bits
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		b := newAdaptedBase(t, typ)
		if typ.IsQuantized() {
			eightBits = max(eightBits, b.variants)
		}
		bases = append(bases, b)
	}
	for _, b := range bases {
		if b.typ.IsQuantized() {
			b.variants = eightBits
		}
		t.Run(b.typ.String(), b.check)
	}
}

// An adaptedBase is a model of a type, with lists of adapters.
type adaptedBase struct {
	*comparison
	typ   ggml.Type
	few   string // file of the adapter of the lowest rank
	lists map[string][]scaled
}

func newAdaptedBase(t *testing.T, typ ggml.Type) *adaptedBase {
	t.Helper()
	shape := llmtest.LargeBlockConfig(false)
	shape.Context, shape.RoPE.TrainedCtx = 256, 256
	m := modelOfType(t, shape, typ)
	few := savedAdapter(t, m, lora.Options{Rank: 8, Alpha: 8, Ranks: everywhere(8), Seed: 1})
	many := savedAdapter(t, m, lora.Options{Rank: 64, Alpha: 64, Ranks: everywhere(64), Seed: 2})
	output := savedAdapter(t, m, lora.Options{Rank: 64, Alpha: 64, Targets: []string{"output"}, Seed: 3})
	b := &adaptedBase{newComparison(t, m, llmtest.RandomTokens(3, 100, shape.Vocab)), typ, few, map[string][]scaled{
		"rank 8": {{few, 1}}, "rank 64": {{many, 1}}, "both": {{few, 0.75}, {many, -0.5}}, "output": {{output, 1}},
	}}
	for _, typ := range []ggml.Type{ggml.F16, ggml.BF16} {
		few := savedAdapterIn(t, m, lora.Options{Rank: 8, Alpha: 8, Ranks: everywhere(8), Seed: 1}, typ)
		many := savedAdapterIn(t, m, lora.Options{Rank: 64, Alpha: 64, Ranks: everywhere(64), Seed: 2}, typ)
		b.lists["both in "+typ.String()] = []scaled{{few, 0.75}, {many, -0.5}}
	}
	b.measureVariants(t)
	return b
}

func (b *adaptedBase) check(t *testing.T) {
	for name, list := range b.lists {
		for way, e := range b.errors(t, list, list) {
			t.Logf("%s, %s: %v", name, way, e)
			require.Greater(t, e.effect, 0.01, "%s: the adapter must matter", name)
			require.True(t, e.withinVariants(), "%s, %s: %v", name, way, e)
			// Adapters in BF16 round so coarsely that the order of sums shows, also between stock's plugins.
			exact := name != "both in bf16"
			require.True(t, !exact || e.withinRounding(), "%s, %s: %v", name, way, e)
			if name == "output" || exact && (b.typ == ggml.F32 || b.typ == ggml.F16) {
				require.LessOrEqual(t, e.adapted, e.base+adapterShare, "%s, %s: %v", name, way, e)
			}
		}
	}
	for way, e := range b.errors(t, []scaled{{b.few, 1}}, []scaled{{b.few, 1.05}}) {
		require.False(t, e.withinRounding(), "%s: a wrong scale must show: %v", way, e)
		require.True(t, e.variants == 0 || !e.withinVariants(), "%s: a wrong scale must show: %v", way, e)
	}
}

// Stock llama.cpp scales a rank-stabilized adapter of mixed ranks as its training graph does.
func TestInteropRankStabilized(t *testing.T) {
	m := modelOfType(t, llmtest.PackableConfig(false), ggml.F32)
	a := randomAdapter(t, m, lora.Options{
		Alpha: 8, RankStabilized: true, Seed: 1, Ranks: map[string]int{"all-linear": 8, "attn_v": 0, "q_proj": 64, "blk.1.ffn_*": 3},
	})
	path, tokens := filepath.Join(t.TempDir(), "adapter.gguf"), llmtest.RandomTokens(3, 40, m.Config().Vocab)
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	plain, want := stockLogits(t, m.Path, tokens), stockLogits(t, m.Path, tokens, path+"=1")
	require.Greater(t, nmse(want, plain), 0.01, "the adapter must matter")
	require.Less(t, nmse(ourLogits(t, m, tokens, a.WithScale(1)), want), 1e-6)
	require.Greater(t, nmse(ourLogits(t, m, tokens, a.WithScale(1.05)), want), 1e-5, "a wrong scale must show")
}

// modelOfType returns a random model whose embeddings outweigh what a layer adds to them, as in trained models.
// Otherwise each layer would amplify the rounding of earlier layers.
func modelOfType(t *testing.T, c arch.Config, typ ggml.Type) *model.Model {
	t.Helper()
	made := need.Value(model.New(c, nil, 1))(t)
	defer made.Close()
	path, rng := filepath.Join(t.TempDir(), "model.gguf"), rand.New(rand.NewPCG(4, 5))
	require.NoError(t, made.Save(path, model.SaveOptions{
		Type: func(name string, old ggml.Type) ggml.Type {
			if made.Weight(name).NumDims() < 2 {
				return old
			}
			return typ
		},
		Change: func(name string) func([]float32) error {
			size := 0.05
			if name == "token_embd.weight" {
				size = 1
			}
			return func(values []float32) error {
				for i := range values {
					values[i] += float32(size * rng.NormFloat64())
				}
				return nil
			}
		},
	}))
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// everywhere returns ranks for the matrices that have adapters only if they are named.
func everywhere(rank int) map[string]int { return map[string]int{"token_embd": rank, "output": rank} }

// savedAdapter returns the file of an adapter with random factors.
func savedAdapter(t *testing.T, m *model.Model, o lora.Options) string {
	t.Helper()
	return savedAdapterIn(t, m, o, ggml.F32)
}

func savedAdapterIn(t *testing.T, m *model.Model, o lora.Options, typ ggml.Type) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, randomAdapter(t, m, o).Save(path, lora.SaveOptions{Type: typ}))
	return path
}

func randomAdapter(t *testing.T, m *model.Model, o lora.Options) *lora.Adapter {
	t.Helper()
	a := need.Value(lora.New(m, o))(t)
	t.Cleanup(func() { a.Close() })
	rng := rand.New(rand.NewPCG(o.Seed, 7))
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for i := range values {
			values[i] = float32(0.03 * rng.NormFloat64())
		}
		require.NoError(t, ggml.Write(p.B, values))
	}
	return a
}

// A scaled is the file of an adapter, and its scale.
type scaled struct {
	path  string
	scale float32
}

// A comparison compares a model with adapters with stock llama.cpp.
type comparison struct {
	path, exact string // the model, and one with the same values in F32
	tokens      []int32
	plain       [][]float32 // stock's logits without adapters
	variants    float64     // distance between stock's CPU plugins; 0 if it has only one
	base        map[string]float64
}

func newComparison(t *testing.T, m *model.Model, tokens []int32) *comparison {
	t.Helper()
	c := &comparison{path: m.Path, exact: llmtest.Dequantised(t, m).Path, tokens: tokens, base: map[string]float64{}}
	c.plain = c.stock(t, c.path, nil)
	for way, got := range c.decoded(t, nil) {
		c.base[way] = nmse(got, c.plain)
	}
	return c
}

// measureVariants compares the logits of stock's CPU plugins, and keeps the largest difference. The order of
// sums decides how activations close to a rounding boundary are rounded, so the difference is random.
func (b *adaptedBase) measureVariants(t *testing.T) {
	t.Helper()
	for _, v := range otherVariants(t, b.path, b.tokens) {
		for name, list := range b.lists {
			e := nmse(v.logits(t, b.path, b.tokens, adapterArgs(list)...), b.stock(t, b.path, list))
			t.Logf("%v, %s, stock by its plugin %s: NMSE %.2g", b.typ, name, v.name, e)
			b.variants = max(b.variants, e)
		}
	}
}

// adapterErrors are NMSE of logits.
type adapterErrors struct {
	effect         float64 // of the adapter on stock's logits
	base, adapted  float64 // ours against stock's, without and with adapter
	rounded, stock float64 // our and stock's logits with adapter against logits of a base in F32
	variants       float64 // between stock's CPU plugins
}

func (e adapterErrors) String() string {
	return fmt.Sprintf("NMSE %.2g, without adapter %.2g; for the rounding of the base %.3g, stock's %.3g; stock's by another plugin %.2g", e.adapted, e.base, e.rounded, e.stock, e.variants)
}

// withinRounding reports whether our logits are as exact as stock's. Both round the input of products to the
// type of the base. Close to a rounding boundary, another order of sums rounds differently, which is no less
// exact. So our error and stock's differ by up to 5 %, and our logits from stock's by up to the sum of both.
func (e adapterErrors) withinRounding() bool { return e.rounded <= 1.05*e.stock+adapterShare }

// withinVariants reports whether our logits are about as close to stock's as the logits of two stock CPU
// plugins are to each other. This holds if we round where stock rounds; products of many tokens do not.
func (e adapterErrors) withinVariants() bool {
	rounds := e.rounded > e.stock/2
	return !rounds || e.variants == 0 || e.adapted <= variantFactor*e.variants+adapterShare
}

// errors compares stock's logits with some adapters with ours.
func (c *comparison) errors(t *testing.T, stocks, ours []scaled) map[string]adapterErrors {
	t.Helper()
	want, exact := c.stock(t, c.path, stocks), c.stock(t, c.exact, stocks)
	list := map[string]adapterErrors{}
	for way, got := range c.decoded(t, ours) {
		list[way] = adapterErrors{
			effect: nmse(want, c.plain), base: c.base[way], adapted: nmse(got, want), rounded: nmse(got, exact), stock: nmse(want, exact),
			variants: c.variants,
		}
	}
	return list
}

// stock returns stock's logits of a model with adapters.
func (c *comparison) stock(t *testing.T, path string, list []scaled) [][]float32 {
	t.Helper()
	return stockLogits(t, path, c.tokens, adapterArgs(list)...)
}

// adapterArgs returns the arguments of scripts/interop/logits.c for adapters.
func adapterArgs(list []scaled) (args []string) {
	for _, s := range list {
		args = append(args, fmt.Sprintf("%s=%v", s.path, s.scale))
	}
	return args
}

// decoded returns the logits by each way to compute tokens.
func (c *comparison) decoded(t *testing.T, list []scaled) map[string][][]float32 {
	t.Helper()
	all := map[string][][]float32{}
	for way, o := range map[string]model.LoadOptions{"": {}, ", repacked": {Repack: true}} {
		m := need.Value(model.Load(c.path, o))(t)
		defer m.Close()
		adapters := model.Adapters{}
		for _, s := range list {
			a := need.Value(lora.Load(s.path, m))(t)
			defer a.Close()
			adapters = lora.Join(adapters, a.WithScale(s.scale))
		}
		for kind, logits := range ways(t, m, c.tokens, adapters) {
			all[kind+way] = logits
		}
	}
	return all
}
