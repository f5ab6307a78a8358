package model

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/goggml/ggml"
)

// An architecture is what distinguishes one kind of model from another: data,
// not code.
type architecture struct {
	rope ggml.RoPEMode
}

var architectures = map[string]architecture{
	"llama": {rope: ggml.RoPENorm},
}

// Architectures lists the values of general.architecture that are supported.
func Architectures() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// A Config is the hyper-parameters of a model.
type Config struct {
	Arch     string // general.architecture
	Name     string // general.name
	Vocab    int    // tokens of the vocabulary
	Context  int    // positions it was trained on
	Embd     int    // width of the residual stream
	FF       int    // width of the feed-forward layer
	Layers   int
	Heads    int
	KVHeads  int // a divisor of Heads
	HeadSize int
	RMSEps   float32
	RoPE     ggml.RoPE
	Tied     bool // the output matrix is the token embedding
}

// ErrUnsupported is a model of a kind that this package does not compute.
var ErrUnsupported = errors.New("unsupported model")

// metadata reads keys, and gathers what is wrong with them.
type metadata struct {
	g      *ggml.GGUF
	arch   string
	faults []string
}

func value[T any](m *metadata, key string, fallback T, optional bool) T {
	v, err := ggml.GGUFValue[T](m.g, key)
	if err == nil {
		return v
	}
	if !optional || !errors.Is(err, ggml.ErrKeyNotFound) {
		m.faults = append(m.faults, err.Error())
	}
	return fallback
}

func (m *metadata) size(key string) int {
	n := value(m, m.arch+"."+key, uint32(0), false)
	if n == 0 || n > math.MaxInt32 {
		m.faults = append(m.faults, fmt.Sprintf("%s.%s is %d", m.arch, key, n))
	}
	return int(n)
}

func (m *metadata) sizeOr(key string, fallback int) int {
	return int(value(m, m.arch+"."+key, uint32(fallback), true))
}

func (m *metadata) floatOr(key string, fallback float32) float32 {
	return value(m, m.arch+"."+key, fallback, true)
}

func (m *metadata) text(key, fallback string) string { return value(m, key, fallback, true) }

// ReadConfig reads the hyper-parameters from a GGUF file. The error lists all
// that is missing or wrong.
func ReadConfig(g *ggml.GGUF) (Config, error) {
	if kind, _ := ggml.GGUFValue[string](g, "general.type"); kind != "" && kind != "model" {
		return Config{}, fmt.Errorf("%s: %w: the file is of type %q, not a model", g.Name(), ErrUnsupported, kind)
	}
	arch, err := ggml.GGUFValue[string](g, "general.architecture")
	if err != nil {
		return Config{}, err
	}
	kind, ok := architectures[arch]
	if !ok {
		return Config{}, fmt.Errorf("%s: %w: architecture %q; supported: %s", g.Name(), ErrUnsupported, arch, strings.Join(Architectures(), ", "))
	}
	m := &metadata{g: g, arch: arch}
	c := Config{
		Arch:    arch,
		Name:    m.text("general.name", ""),
		Context: m.size("context_length"),
		Embd:    m.size("embedding_length"),
		FF:      m.size("feed_forward_length"),
		Layers:  m.size("block_count"),
		Heads:   m.size("attention.head_count"),
		RMSEps:  value(m, arch+".attention.layer_norm_rms_epsilon", float32(0), false),
	}
	c.KVHeads = m.sizeOr("attention.head_count_kv", c.Heads)
	if c.Heads > 0 {
		c.HeadSize = m.sizeOr("attention.key_length", c.Embd/c.Heads)
	}
	if n := m.sizeOr("attention.value_length", c.HeadSize); n != c.HeadSize {
		m.faults = append(m.faults, fmt.Sprintf("keys of %d and values of %d elements a head are unsupported", c.HeadSize, n))
	}
	if n := m.sizeOr("expert_count", 0); n > 0 {
		m.faults = append(m.faults, fmt.Sprintf("it is a mixture of %d experts, which is unsupported", n))
	}
	c.RoPE = m.rope(kind, &c)
	if t, ok := g.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 {
		c.Vocab = int(t.Shape[1])
	} else {
		m.faults = append(m.faults, "tensor token_embd.weight is missing")
	}
	_, untied := g.Tensor("output.weight")
	c.Tied = !untied
	if len(m.faults) == 0 {
		m.faults = c.faults()
	}
	if len(m.faults) > 0 {
		return Config{}, fmt.Errorf("%s: %w: %s", g.Name(), ErrUnsupported, strings.Join(m.faults, "; "))
	}
	return c, nil
}

// What llama.cpp takes of YaRN for this architecture, whatever the keys of the
// file say.
const yarnExtFactor, yarnBetaFast, yarnBetaSlow = 1, 32, 1

// rope reads the keys of rotary position embedding, with the meaning and the
// defaults that llama.cpp gives them.
func (m *metadata) rope(kind architecture, c *Config) ggml.RoPE {
	r := ggml.RoPE{
		Dims:       m.sizeOr("rope.dimension_count", c.HeadSize),
		Mode:       kind.rope,
		FreqBase:   m.floatOr("rope.freq_base", 10000),
		FreqScale:  1,
		TrainedCtx: m.sizeOr("rope.scaling.original_context_length", c.Context),
		AttnFactor: m.floatOr("rope.scaling.attn_factor", 1),
		BetaFast:   yarnBetaFast,
		BetaSlow:   yarnBetaSlow,
	}
	factor := m.floatOr("rope.scaling.factor", m.floatOr("rope.scale_linear", 0))
	switch scaling := m.text(m.arch+".rope.scaling.type", "linear"); scaling {
	case "none":
		factor = 0
	case "linear":
	case "yarn":
		r.ExtFactor = yarnExtFactor
	default:
		m.faults = append(m.faults, fmt.Sprintf("RoPE scaling %q is unsupported", scaling))
	}
	if factor != 0 {
		r.FreqScale = 1 / factor
	}
	return r
}

// faults lists what contradicts itself.
func (c *Config) faults() []string {
	var faults []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"vocabulary", c.Vocab}, {"context", c.Context}, {"embedding", c.Embd}, {"feed-forward width", c.FF},
		{"layers", c.Layers}, {"heads", c.Heads}, {"KV heads", c.KVHeads}, {"head size", c.HeadSize},
	} {
		check(n.value > 0 && n.value <= math.MaxInt32, "%s is %d", n.name, n.value)
	}
	const mostLayers = 1 << 16 // a list of their tensors is made before the file is looked at
	check(c.Layers <= mostLayers, "there are %d layers; %d are the most", c.Layers, mostLayers)
	if len(faults) > 0 {
		return faults
	}
	check(c.Heads%c.KVHeads == 0, "%d heads cannot share %d KV heads", c.Heads, c.KVHeads)
	check(c.RoPE.Dims > 0 && c.RoPE.Dims%2 == 0 && c.RoPE.Dims <= c.HeadSize, "RoPE turns %d of %d elements of a head", c.RoPE.Dims, c.HeadSize)
	check(c.RoPE.FreqBase > 0 && c.RoPE.FreqScale > 0, "RoPE has frequency base %v and scale %v", c.RoPE.FreqBase, c.RoPE.FreqScale)
	check(c.RoPE.Mode == architectures[c.Arch].rope, "RoPE has mode %v, which is another architecture's", c.RoPE.Mode)
	yarn := c.RoPE.ExtFactor == yarnExtFactor && c.RoPE.BetaFast == yarnBetaFast && c.RoPE.BetaSlow == yarnBetaSlow
	check(c.RoPE.ExtFactor == 0 || yarn, "YaRN has factor %v and betas %v and %v; files can have %v, %v and %v", c.RoPE.ExtFactor, c.RoPE.BetaFast, c.RoPE.BetaSlow, yarnExtFactor, yarnBetaFast, yarnBetaSlow)
	check(c.RMSEps > 0, "the epsilon of the norm is %v", c.RMSEps)
	return faults
}

// Validate checks that the numbers fit together.
func (c Config) Validate() error {
	if _, ok := architectures[c.Arch]; !ok {
		return fmt.Errorf("%w: architecture %q; supported: %s", ErrUnsupported, c.Arch, strings.Join(Architectures(), ", "))
	}
	if faults := c.faults(); len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(faults, "; "))
	}
	return nil
}

// A file without a vocabulary says so: llama.cpp demands the key.
const (
	vocabularyKey = "tokenizer.ggml.model"
	noVocabulary  = "no_vocab"
)

// A keyValue is a key of a file.
type keyValue struct {
	key   string
	value any
}

// scalingKeys are those of a RoPE that reaches beyond the context of its training.
func (c Config) scalingKeys() []keyValue {
	r, prefix := c.RoPE, c.Arch+".rope.scaling."
	kind := "linear"
	switch {
	case r.ExtFactor != 0:
		kind = "yarn"
	case r.FreqScale == 1 && r.AttnFactor == 1:
		return nil
	}
	return []keyValue{
		{prefix + "type", kind},
		{prefix + "factor", 1 / r.FreqScale},
		{prefix + "original_context_length", uint32(r.TrainedCtx)},
		{prefix + "attn_factor", r.AttnFactor},
	}
}

// WriteKeys sets the hyper-parameters in a GGUF file, as stock llama.cpp
// reads them, and that it has no vocabulary.
func (c Config) WriteKeys(g *ggml.GGUF) error {
	keys := []keyValue{
		{"general.architecture", c.Arch},
		{"general.type", "model"},
		{"general.name", c.Name},
		{c.Arch + ".vocab_size", uint32(c.Vocab)},
		{c.Arch + ".context_length", uint32(c.Context)},
		{c.Arch + ".embedding_length", uint32(c.Embd)},
		{c.Arch + ".feed_forward_length", uint32(c.FF)},
		{c.Arch + ".block_count", uint32(c.Layers)},
		{c.Arch + ".attention.head_count", uint32(c.Heads)},
		{c.Arch + ".attention.head_count_kv", uint32(c.KVHeads)},
		{c.Arch + ".attention.key_length", uint32(c.HeadSize)},
		{c.Arch + ".attention.value_length", uint32(c.HeadSize)},
		{c.Arch + ".attention.layer_norm_rms_epsilon", c.RMSEps},
		{c.Arch + ".rope.dimension_count", uint32(c.RoPE.Dims)},
		{c.Arch + ".rope.freq_base", c.RoPE.FreqBase},
		{vocabularyKey, noVocabulary},
	}
	keys = append(keys, c.scalingKeys()...)
	for _, kv := range keys {
		if err := g.Set(kv.key, kv.value); err != nil {
			return err
		}
	}
	return nil
}

// NumParameters counts the weights.
func (c Config) NumParameters() int64 {
	var n int64
	for _, s := range c.Tensors() {
		size := int64(1)
		for _, d := range s.Shape {
			size *= d
		}
		n += size
	}
	return n
}

// A TensorShape is a tensor that a model has.
type TensorShape struct {
	Name  string
	Shape []int64 // [n_in, n_out] of a matrix
}

// Linears names the matrices of a layer that LoRA can adapt.
var Linears = []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}

// linearShape gives [n_in, n_out] of one of [Linears].
func (c Config) linearShape(linear string) []int64 {
	embd, ff := int64(c.Embd), int64(c.FF)
	q, kv := int64(c.Heads*c.HeadSize), int64(c.KVHeads*c.HeadSize)
	switch linear {
	case "attn_q":
		return []int64{embd, q}
	case "attn_k", "attn_v":
		return []int64{embd, kv}
	case "attn_output":
		return []int64{q, embd}
	case "ffn_down":
		return []int64{ff, embd}
	default:
		return []int64{embd, ff}
	}
}

// Tensors lists the tensors of the model in the order of computation.
func (c Config) Tensors() []TensorShape {
	embd := int64(c.Embd)
	list := []TensorShape{{"token_embd.weight", []int64{embd, int64(c.Vocab)}}}
	for layer := range c.Layers {
		list = append(list, TensorShape{layerTensor(layer, "attn_norm"), []int64{embd}})
		for _, linear := range Linears[:4] {
			list = append(list, TensorShape{layerTensor(layer, linear), c.linearShape(linear)})
		}
		list = append(list, TensorShape{layerTensor(layer, "ffn_norm"), []int64{embd}})
		for _, linear := range Linears[4:] {
			list = append(list, TensorShape{layerTensor(layer, linear), c.linearShape(linear)})
		}
	}
	list = append(list, TensorShape{"output_norm.weight", []int64{embd}})
	if !c.Tied {
		list = append(list, TensorShape{"output.weight", []int64{embd, int64(c.Vocab)}})
	}
	return list
}

// ropeFactors are the frequency factors [dims/2] of RoPE, which a model may have.
const ropeFactors = "rope_freqs.weight"

// biasName is the bias that may belong to a matrix.
func biasName(weight string) string { return strings.TrimSuffix(weight, ".weight") + ".bias" }

func layerTensor(layer int, name string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, name) }
