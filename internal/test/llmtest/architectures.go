package llmtest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// A tinyArch describes the smallest model of an architecture with all of its features, as converters
// write its files.
type tinyArch struct {
	arch     string         // "" means the model's name
	keys     map[string]any // without the architecture's name as prefix
	bare     map[string]any // complete names
	layers   int            // 0 means 2
	headSize int            // 0 means 8
	kvHeads  int            // 0 means 2
	widen    int            // factor of all matrix widths; 0 means 1
	vocab    int            // 0 means 40
	fusedQKV bool
	tied     bool
	// fusedGateUp doubles the rows of the first feed-forward network. blocks is the prefix of block names.
	fusedGateUp bool
	blocks      string
	like        string                // name of a model that has all of its parts; "" if none
	gelu        bool                  // stock llama.cpp computes its activation by a table
	keyBlocks   bool                  // attention chooses blocks of keys
	noValues    []bool                // per layer: the values are the keys
	has         []string              // tensors that only some models of the architecture have
	optional    []string              // optional weights, in each layer
	noStock     bool                  // stock llama.cpp cannot read a tiny model of the architecture
	seed        uint64                // of the weights' values
	factors     map[arch.Kind]float64 // by kind of weight, factors of the values; may be nil
	notStock    []string              // optional weights that stock llama.cpp 0.7.0 does not read
	stockVocab  int                   // the vocabulary of models for stock llama.cpp, if it must be larger
}

// LongContext is the context from which models with two sets of RoPE factors use those for long
// contexts.
const LongContext = 17

func biases(matrices ...string) []string { return suffixed(matrices, ".bias") }

func scales(matrices ...string) []string { return suffixed(matrices, ".scale") }

// experts returns keys of a mixture, merged with others.
func experts(keys map[string]any) map[string]any {
	return merged(map[string]any{"expert_count": uint32(6), "expert_used_count": uint32(3), "expert_feed_forward_length": uint32(32)}, keys)
}

func suffixed(names []string, suffix string) []string {
	for i := range names {
		names[i] += suffix
	}
	return names
}

// TestedArchitectures returns the models for tests of every architecture: together they have all
// parts. With -short it returns a few; in make fuzz, all models.
func TestedArchitectures() []string {
	switch {
	case TakesAll():
		return models()
	case testing.Short():
		return []string{"bloom", "deepseek2", "gemma3", "gpt-oss", "lfm2", "llada", "phi3", "qwen2moe", "qwen35"}
	}
	return slices.DeleteFunc(models(), func(name string) bool { return tinyArchs[name].like != "" })
}

// TakesAll reports whether GOGGML_ALL_ARCHITECTURES is set, as in make fuzz: tests then go through all
// architectures.
func TakesAll() bool { return os.Getenv("GOGGML_ALL_ARCHITECTURES") != "" }

// FewArchitectures returns some models that together have all kinds of parts, for tests that do not
// test the parts themselves.
func FewArchitectures() []string {
	return []string{"bloom", "cohere2", "deci", "gemma3", "gpt-oss", "gpt2", "granite", "llama", "mistral3", "olmo2", "phi3", "qwen2moe", "qwen3moe", "smollm3"}
}

// StockArchitectures returns the models that stock llama.cpp reads.
func StockArchitectures() []string {
	return slices.DeleteFunc(models(), func(name string) bool { return tinyArchs[name].noStock })
}

// LooksUpGELU reports whether ggml's CPU backend computes the architecture's GELU by a table with F16
// inputs, so that a rounding difference may select another entry than in float64.
func LooksUpGELU(name string) bool { return tinyArchs[name].gelu }

// ChoosesBlocks reports whether the model's attention chooses blocks of keys.
func ChoosesBlocks(name string) bool { return tinyArchs[name].keyBlocks }

// Architectures lists the architectures that [ArchModel] supports.
func Architectures() []string {
	return slices.DeleteFunc(models(), func(name string) bool { return tinyArchs[name].arch != "" })
}

// models lists the names of tiny models. Each architecture has one of its name, and may have others.
func models() []string { return slices.Sorted(maps.Keys(tinyArchs)) }

// ArchModel loads a tiny random model of an architecture, with matrices of a type.
func ArchModel(t testing.TB, name string, typ ggml.Type) *model.Model {
	t.Helper()
	m, err := model.Load(ArchFile(t, name, typ), model.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// DividesByLength reports whether a model normalises a state's output or input by its length. If the
// length is small, this amplifies rounding errors.
func DividesByLength(m *model.Model) bool {
	var divides func(l []arch.Residual) bool
	divides = func(l []arch.Residual) bool {
		return slices.ContainsFunc(l, func(r arch.Residual) bool {
			scan, _ := r.Part.(arch.Mamba)
			_, rule := r.Part.(arch.DeltaNet)
			_, channels := r.Part.(arch.KimiDelta)
			_, mixes := r.Part.(arch.TimeMix7)
			_, mixes6 := r.Part.(arch.TimeMix6)
			of, ok := r.Part.(arch.Composite)
			return rule || channels || mixes || mixes6 || scan.Norms || ok && divides(of.Residuals())
		})
	}
	return slices.ContainsFunc(m.Architecture().Layers(), func(l arch.Layer) bool { return divides(l) })
}

// ArchTokens returns the tokens whose logits, computed by stock llama.cpp, are in testdata. They reach
// beyond [LongContext].
func ArchTokens() []int32 { return RandomTokens(9, LongContext+3, tinyVocab) }

// ArchFile writes the file of [ArchModel]. Rows are multiples of block sizes up to 32.
func ArchFile(t testing.TB, name string, typ ggml.Type) (path string) {
	t.Helper()
	require.Contains(t, tinyArchs, name)
	return tinyArchs[name].write(t, name, only(typ))
}

// only returns a function that gives all matrices a type.
func only(typ ggml.Type) func(*arch.Weight) ggml.Type {
	return func(*arch.Weight) ggml.Type { return typ }
}

// ExpertTypes returns combinations of a type for experts and one for other matrices, as real files
// have them.
func ExpertTypes() []ExpertsOfType {
	list := []ExpertsOfType{{"gpt-oss", ggml.MXFP4, ggml.BF16}, {"gpt-oss", ggml.NVFP4, ggml.BF16}}
	for _, typ := range []ggml.Type{ggml.MXFP4, ggml.Q4_0, ggml.IQ4NL, ggml.IQ4XS, ggml.Q2_K, ggml.Q3_K, ggml.Q4_K, ggml.Q5_K, ggml.Q6_K, ggml.F16} {
		list = append(list, ExpertsOfType{"qwen3moe", typ, ggml.Q8_0})
	}
	return list
}

// ExpertsOfType is one of [ExpertTypes].
type ExpertsOfType struct {
	Arch            string
	Experts, Others ggml.Type
}

// Load loads a tiny model whose rows are multiples of every block size.
func (e ExpertsOfType) Load(t testing.TB, o model.LoadOptions) *model.Model {
	t.Helper()
	a := tinyArchs[e.Arch]
	a.widen = 8
	m, err := model.Load(a.write(t, e.Arch, func(w *arch.Weight) ggml.Type {
		switch {
		case !w.IsConvertible():
			return ggml.F32
		case w.Role == arch.ExpertMatrices:
			return e.Experts
		}
		return e.Others
	}), o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// AllExpertsFile is like ArchFile, but mixtures use all experts: with rounded inputs a router may
// choose others. Rows are multiples of the type's block size.
func AllExpertsFile(t testing.TB, name string, typ ggml.Type) (path string) {
	t.Helper()
	a := tinyArchs[name]
	if typ.BlockSize() > 32 {
		a.widen = 8
	}
	a.chooseAll()
	return a.write(t, name, only(typ))
}

// chooseAll makes a mixture use all experts, and attention all keys.
func (a *tinyArch) chooseAll() {
	a.keys = maps.Clone(a.keys)
	if _, ok := a.keys[topKeys]; ok {
		a.keys[topKeys] = uint32(1 << 17)
	}
	if tables, _ := a.keys["hash_layer_count"].(uint32); int(tables) == cmp.Or(a.layers, 2) {
		return // tables choose in all layers
	}
	for key := range a.keys {
		if n, ok := a.keys[strings.Replace(key, "used_count", "count", 1)]; ok {
			a.keys[key] = n
		}
	}
}

// WideArchFile is like ArchFile, with rows that are multiples of every block size.
func WideArchFile(t testing.TB, name string, typ ggml.Type) (path string) {
	t.Helper()
	a := tinyArchs[name]
	a.widen = 8
	return a.write(t, name, only(typ))
}

// StockArchFile is like ArchFile in F32, without weights that stock llama.cpp does not read.
func StockArchFile(t testing.TB, name string) (path string) {
	t.Helper()
	return tinyArchs[name].forStock().write(t, name, only(ggml.F32))
}

// WideStockArchFile is like StockArchFile, with rows that are multiples of every block size, values
// that depend on a seed, and a long context.
func WideStockArchFile(t testing.TB, name string, seed uint64) (path string) {
	t.Helper()
	a := tinyArchs[name].forStock()
	a.factors = maps.Clone(a.factors)
	for kind := range a.factors {
		a.factors[kind] /= 2 // wider networks and heads amplify rounding errors
	}
	a.widen, a.seed, a.keys = 8, seed, merged(map[string]any{"context_length": uint32(1024)}, a.keys)
	a.chooseAll() // with rounded inputs a router may choose others
	return a.write(t, name, only(ggml.F32))
}

// forStock returns the model without weights that stock llama.cpp does not read, and with a vocabulary that it takes.
func (a tinyArch) forStock() tinyArch {
	a.vocab = a.stockVocab
	a.optional = slices.DeleteFunc(slices.Clone(a.optional), func(w string) bool { return slices.Contains(a.notStock, w) })
	return a
}

func (a tinyArch) write(t testing.TB, name string, typeOf func(*arch.Weight) ggml.Type) (path string) {
	t.Helper()
	g := a.describe(t, name)
	defer g.Close()
	for _, w := range a.weights(t, name) {
		addWeight(t, g, w, typeOf(w.Weight))
	}
	path = filepath.Join(t.TempDir(), name+".gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

const tinyVocab, tinyEmbd = 40, 32

const topKeys = "attention.indexer.top_k"

// widthKeys match the keys of matrix widths.
var widthKeys = regexp.MustCompile(`(feed_forward_length|latent_(size|length)|lora_rank(_swa)?|low_rank|(key|value)_length(_mla)?(_swa)?|rope\.dimension_count(_swa)?|embedding_length_per_layer_input|embedding_length_out|dense_[23]_feat_(in|out)|state_size|inner_size|kda\.head_dim)$`)

func (a tinyArch) width(n int) uint32 { return uint32(n * max(a.widen, 1)) }

// widened returns the value of a width key for a wider model: one width, or the widths of all layers.
func (a tinyArch) widened(value any) any {
	switch value := value.(type) {
	case uint32:
		return a.width(int(value))
	case []uint32:
		widths := make([]uint32, len(value))
		for i, n := range value {
			widths[i] = a.width(int(n))
		}
		return widths
	}
	return value
}

// describe creates a file with the keys.
func (a tinyArch) describe(t testing.TB, name string) *ggml.GGUF {
	t.Helper()
	g, err := ggml.NewGGUF()
	require.NoError(t, err)
	head := a.width(cmp.Or(a.headSize, 8))
	keys := map[string]any{
		"context_length": uint32(64), "vocab_size": uint32(cmp.Or(a.vocab, tinyVocab)), "embedding_length": a.width(tinyEmbd), "feed_forward_length": a.width(64), "block_count": uint32(cmp.Or(a.layers, 2)),
		"attention.head_count": uint32(4), "attention.head_count_kv": uint32(cmp.Or(a.kvHeads, 2)), "attention.key_length": head, "attention.value_length": head,
		"attention.layer_norm_rms_epsilon": float32(1e-5), "attention.layer_norm_epsilon": float32(1e-5), "rope.dimension_count": head,
	}
	for key, value := range a.keys {
		if widthKeys.MatchString(key) {
			value = a.widened(value)
		}
		keys[key] = value
	}
	kind := cmp.Or(a.arch, name)
	general := map[string]any{"general.architecture": kind, "general.name": "tiny " + name, "tokenizer.ggml.model": "no_vocab"}
	for key, value := range keys {
		general[kind+"."+key] = value
	}
	maps.Copy(general, a.bare)
	for _, key := range slices.Sorted(maps.Keys(general)) { // sorted, so that files are reproducible
		require.NoError(t, g.Set(key, general[key]))
	}
	return g
}

// A tinyWeight is a tensor with its values.
type tinyWeight struct {
	*arch.Weight
	values refmath.Tensor
}

// weights returns the weights that the architecture declares, including the listed optional ones.
// Norms, scales and factors are around 1; matrices are normal with standard deviation 1/√in, biases
// with 1/2. Equal seeds give equal weights.
func (a tinyArch) weights(t testing.TB, name string) (list []tinyWeight) {
	t.Helper()
	g := a.describe(t, name)
	defer g.Close()
	a.addPresent(t, g)
	c, err := arch.ReadConfig(g)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 1+a.seed))
	model, err := arch.Resolve(c)
	require.NoError(t, err)
	declared := slices.SortedFunc(slices.Values(model.Weights()), func(x, y *arch.Weight) int { return strings.Compare(x.Name, y.Name) })
	for _, w := range declared {
		if w.Optional && !slices.Contains(a.optional, inLayer.ReplaceAllString(w.Name, "")) {
			continue
		}
		list = append(list, tinyWeight{w, a.values(rng, w)})
	}
	return list
}

// addPresent adds tensors without data whose presence determines the size of the vocabulary, and what is fused.
func (a tinyArch) addPresent(t testing.TB, g *ggml.GGUF) {
	t.Helper()
	present := []string{"token_embd.weight"}
	if !a.tied {
		present = append(present, "output.weight")
	}
	if a.fusedQKV {
		heads, _ := a.keys["attention.head_count_kv"].([]uint32)
		first := max(0, slices.IndexFunc(heads, func(n uint32) bool { return n > 0 })) // first layer with attention
		present = append(present, fmt.Sprintf("blk.%d.attn_qkv.weight", first))
	}
	for i, absent := range a.noValues {
		present = append(present, fmt.Sprintf("blk.%d.attn_k.weight", i))
		if !absent {
			present = append(present, fmt.Sprintf("blk.%d.attn_v.weight", i))
		}
	}
	embd := int64(a.width(tinyEmbd))
	shapes := map[string][]int64{}
	if a.fusedGateUp {
		present = append(present, "blk.0.ffn_up.weight")
		shapes["blk.0.ffn_up.weight"] = []int64{embd, 2 * int64(a.width(64))}
	}
	for _, kind := range a.has {
		present = append(present, a.blocks+"blk.0."+kind+".weight")
	}
	never := func(io.Writer) error { return errors.ErrUnsupported }
	for _, tensor := range present {
		shape := shapes[tensor]
		if shape == nil {
			shape = []int64{embd, int64(cmp.Or(a.vocab, tinyVocab))}
		}
		require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: tensor, Type: ggml.F32, Shape: shape, Size: 4 * shape[0] * shape[1]}, never))
	}
}

// values draws the values of a weight.
func (a tinyArch) values(rng *rand.Rand, w *arch.Weight) refmath.Tensor {
	var values refmath.Tensor
	switch {
	case w.Role == arch.ExpertTable:
		experts := make([]float32, w.NumElements())
		w.Init(rng, experts)
		values = refmath.From(experts, w.Shape...)
	case w.Role == arch.Bias:
		values = refmath.Normal(rng, 0.5, w.Shape...)
	case w.Role == arch.Decay:
		values = refmath.Uniform(rng, -1.5, -0.5, w.Shape...)
	case len(w.Shape) == 1 || w.Role == arch.Norm:
		values = refmath.Uniform(rng, 0.5, 1.5, w.Shape...)
	default:
		values = refmath.Normal(rng, 1/math.Sqrt(float64(w.Shape[0])), w.Shape...)
	}
	if factor, ok := a.factors[w.Kind]; ok {
		values = refmath.Scale(values, factor)
	}
	return values
}

var inLayer = regexp.MustCompile(`^(enc\.)?blk\.\d+\.`)

// addWeight adds a matrix of a type, a vector in F32, or a table of experts.
func addWeight(t testing.TB, g *ggml.GGUF, w tinyWeight, typ ggml.Type) {
	t.Helper()
	ne, shape := w.values.Ne, w.Shape
	if w.Stacked {
		shape = []int64{ne[0], ne[1] * ne[2]}
	}
	if len(shape) == 1 || !w.Role.CanHave(typ) || ne[0]%typ.BlockSize() != 0 {
		typ = ggml.F32
	}
	raw := make([]byte, typ.RowSize(ne[0])*ne[1]*ne[2]*ne[3])
	if w.Role == arch.ExpertTable {
		typ = ggml.I32
		for i, expert := range w.values.Data {
			binary.NativeEndian.PutUint32(raw[4*i:], uint32(expert))
		}
	} else {
		require.NoError(t, ggml.Quantize(raw, typ, w.values.Float32(), ggml.QuantizeOptions{RowLen: int(ne[0])}))
	}
	info := ggml.GGUFTensor{Name: w.Name, Type: typ, Shape: shape, Size: int64(len(raw))}
	require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}))
}
