package arch

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/goggml/ggml"
)

// A key is a hyper-parameter in a GGUF file. Its name follows the architecture's and a
// dot.
type key struct {
	name       string
	unprefixed bool // the name is complete
	read       func(m *metadata, name string, c *Config)
	write      func(c *Config) any // nil, or returning nil: it is not written
}

// metadata reads keys and collects their faults.
type metadata struct {
	g        *ggml.GGUF
	arch     string
	perLayer bool // sizes may be listed for each layer
	faults   []string
}

func (m *metadata) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

func value[T any](m *metadata, name string, fallback T, optional bool) T {
	v, err := ggml.GGUFValue[T](m.g, name)
	if err == nil {
		return v
	}
	if !optional || !errors.Is(err, ggml.ErrKeyNotFound) {
		m.fault("%v", err)
	}
	return fallback
}

// perLayer are the sizes that files may list for each layer.
var perLayer = []string{"feed_forward_length", "attention.head_count", "attention.head_count_kv"}

// size reads a number, or a list of equal numbers for all layers where lists are allowed.
func (m *metadata) size(name string, fallback int, optional bool) int {
	key := m.arch + "." + name
	if list, ok := m.list(key); ok && slices.Contains(perLayer, name) {
		return m.uniform(key, list)
	}
	return int(value(m, key, uint32(fallback), optional))
}

// list returns the value of a key that is an array.
func (m *metadata) list(name string) (list reflect.Value, ok bool) {
	v, _ := m.g.Value(name)
	list = reflect.ValueOf(v)
	return list, list.Kind() == reflect.Slice
}

// checkLength compares the length of a list with the number of layers.
func (m *metadata) checkLength(name string, list reflect.Value) {
	if layers, err := ggml.GGUFValue[uint32](m.g, m.arch+".block_count"); err == nil && list.Len() != int(layers) {
		m.fault("%s has %d values for %d layers", name, list.Len(), layers)
	}
}

func (m *metadata) uniform(name string, list reflect.Value) int {
	sizes := m.whole(name, list)
	if len(sizes) == 0 {
		return 0
	}
	if len(slices.Compact(slices.Clone(sizes))) > 1 && !m.perLayer {
		m.fault("%s differs from layer to layer, which is unsupported", name)
		return sizes[0]
	}
	return slices.Max(sizes)
}

// whole returns the integers of a list.
func (m *metadata) whole(name string, list reflect.Value) []int {
	m.checkLength(name, list)
	sizes := make([]int, list.Len())
	for i := range sizes {
		x := list.Index(i)
		if !x.CanInt() && !x.CanUint() {
			m.fault("%s is not a list of whole numbers", name)
			return nil
		}
		sizes[i] = int(x.Convert(reflect.TypeFor[int64]()).Int())
	}
	return sizes
}

// listed returns a size for each layer, or nil if all are equal.
func (m *metadata) listed(name string) []int {
	key := m.arch + "." + name
	list, ok := m.list(key)
	if !ok || !m.perLayer {
		return nil
	}
	return differing(m.whole(key, list))
}

// differing returns the sizes, or nil if all are equal.
func differing(sizes []int) []int {
	if len(slices.Compact(slices.Clone(sizes))) <= 1 {
		return nil
	}
	return sizes
}

// numbers converts sizes to the type of files.
func numbers(sizes []int) []uint32 {
	list := make([]uint32, len(sizes))
	for i, n := range sizes {
		list[i] = uint32(n)
	}
	return list
}

// flags returns a bool for each layer, or nil if the file has none.
func (m *metadata) flags(name string) []bool {
	name = m.arch + "." + name
	list, ok := m.list(name)
	if !ok {
		return nil
	}
	m.checkLength(name, list)
	if each := reflect.New(list.Type().Elem()).Elem(); each.Kind() != reflect.Bool && !each.CanInt() && !each.CanUint() {
		m.fault("%s is not a list of booleans", name)
		return nil
	}
	flags := make([]bool, list.Len())
	for i := range flags {
		flags[i] = !list.Index(i).IsZero()
	}
	return flags
}

// uniformFactor reads a real number, or a list that gives each layer the same.
func (m *metadata) uniformFactor(name string, fallback float32) float32 {
	list, ok := m.list(m.arch + "." + name)
	if !ok {
		return value(m, m.arch+"."+name, fallback, true)
	}
	m.checkLength(name, list)
	x := fallback
	for i := range list.Len() {
		each, isReal := list.Index(i).Interface().(float32)
		if !isReal || i > 0 && each != x {
			m.fault("%s.%s is not a list of equal real numbers, which alone is supported", m.arch, name)
			return fallback
		}
		x = each
	}
	return x
}

// pattern reads which layers are local. A file has a list of them, or a period: the last layer of each period is
// global. It returns the list only if no period describes it.
func (m *metadata) pattern(name string, fallback int) (period int, local []bool) {
	local = m.flags(name)
	if local == nil {
		if _, isList := m.list(m.arch + "." + name); isList {
			return fallback, nil // and at fault
		}
		return int(value(m, m.arch+"."+name, uint32(fallback), true)), nil
	}
	period = 1
	for period <= len(local) && local[period-1] {
		period++
	}
	for i := range local {
		if local[i] != ((i+1)%period != 0) {
			return 0, local
		}
	}
	return period, nil
}

// readKeys fills in what keys say, and what follows from them.
func (m *metadata) readKeys(c *Config, s spec) {
	for _, k := range s.allKeys() {
		k.read(m, k.name, c)
		if c.Layers > maxLayers { // before lists of all layers are made
			m.fault("there are %d layers; the limit is %d", c.Layers, maxLayers)
			return
		}
	}
	m.readRoPE(c, s)
	m.refuse(c, s)
	if s.complete != nil {
		s.complete(c)
	}
}

// allKeys returns the keys of the architecture, in the order in which they depend on each other.
func (s spec) allKeys() []key { return slices.Concat(commonKeys, s.mixture.keys(), s.keys) }

// epsKeys are the keys of models that may have either norm; the other norm's is 0.
var epsKeys = []key{
	factor("attention.layer_norm_epsilon", func(c *Config) *float32 { return &c.LayerNormEps }, 0, false),
	factor("attention.layer_norm_rms_epsilon", func(c *Config) *float32 { return &c.RMSEps }, 0, false),
}

// refuse reports keys of unsupported features.
func (m *metadata) refuse(c *Config, s spec) {
	if n := m.size("expert_count", 0, true); n > 0 && s.mixture == nil && !s.noExperts {
		m.fault("it is a mixture of %d experts, which is unsupported", n)
	}
	if n := m.size(nextLayers, 0, true); n > 0 && !c.hasKey(nextLayers) {
		m.fault("its last layers (%d) predict several tokens ahead, which is unsupported", n)
	}
	if !s.bidirectional && !value(m, m.arch+".attention.causal", true, true) {
		m.fault("its attention is bidirectional, which is unsupported")
	}
	for _, same := range []struct {
		name  string
		value int
	}{
		{"attention.value_length", c.valueSize()}, {"attention.key_length_swa", c.HeadSize}, {"attention.value_length_swa", c.valueSize()},
		{"rope.dimension_count_swa", c.RoPE.Dims},
	} {
		if got := m.size(same.name, same.value, true); got != same.value && !c.hasKey(same.name) {
			m.fault("%s.%s is %d, not %d as everywhere else, which is unsupported", m.arch, same.name, got, same.value)
		}
	}
}

// count is a number that each model of a kind has.
func count(name string, field func(c *Config) *int) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			before := len(m.faults)
			n := m.size(name, 0, false)
			if len(m.faults) == before && (n <= 0 || n > math.MaxInt32) {
				m.fault("%s.%s is %d", m.arch, name, n)
			}
			*field(c) = n
		},
		write: func(c *Config) any { return uint32(*field(c)) },
	}
}

// size is a number that each file has, and that is 0 where no part has a use for it.
func size(name string, field func(c *Config) *int) key {
	return key{
		name:  name,
		read:  func(m *metadata, name string, c *Config) { *field(c) = m.size(name, 0, false) },
		write: func(c *Config) any { return uint32(*field(c)) },
	}
}

// optional is a number that a file may lack: the fallback then computes it. It is written if it is
// not 0.
func optional(name string, field func(c *Config) *int, fallback func(c *Config) int) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) { *field(c) = m.size(name, fallback(c), true) },
		write: func(c *Config) any {
			if *field(c) == 0 {
				return nil
			}
			return uint32(*field(c))
		},
	}
}

// factor is a real number with a fallback for files that lack it. It is written if it is not 0 or if
// it is required.
func factor(name string, field func(c *Config) *float32, fallback float32, required bool) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			*field(c) = value(m, m.arch+"."+name, fallback, !required)
		},
		write: func(c *Config) any {
			if *field(c) == 0 && !required {
				return nil
			}
			return *field(c)
		},
	}
}

// derived is a real number that a file may lack: the fallback then computes it.
func derived(name string, field func(c *Config) *float32, fallback func(c *Config) float32) key {
	return key{
		name:  name,
		read:  func(m *metadata, name string, c *Config) { *field(c) = value(m, m.arch+"."+name, fallback(c), true) },
		write: func(c *Config) any { return *field(c) },
	}
}

func constant(x float32) func(*Config) float32 { return func(*Config) float32 { return x } }

// listable is a size that may be listed for each layer.
func listable(k key, list func(c *Config) *[]int) key {
	return key{
		name: k.name,
		read: func(m *metadata, name string, c *Config) {
			k.read(m, name, c)
			*list(c) = m.listed(name)
		},
		write: func(c *Config) any {
			if sizes := *list(c); sizes != nil {
				return numbers(sizes)
			}
			return k.write(c)
		},
	}
}

func always(n int) func(*Config) int { return func(*Config) int { return n } }

// valueSize returns the size of values in the cache.
func (c *Config) valueSize() int { return cmp.Or(c.ValueSize, c.HeadSize) }

// commonKeys are the keys of all architectures, in the order in which they depend on each other.
var commonKeys = []key{
	{
		name:  "vocab_size", // see readVocabulary
		read:  func(*metadata, string, *Config) {},
		write: func(c *Config) any { return uint32(c.Vocab) },
	},
	count("context_length", func(c *Config) *int { return &c.Context }),
	count("embedding_length", func(c *Config) *int { return &c.Embd }),
	listable(size("feed_forward_length", func(c *Config) *int { return &c.FF }), func(c *Config) *[]int { return &c.FFs }),
	{
		name:  "block_count",
		read:  count("block_count", func(c *Config) *int { return &c.Layers }).read,
		write: func(c *Config) any { return uint32(c.Layers + c.NextLayers) },
	},
	listable(size("attention.head_count", func(c *Config) *int { return &c.Heads }), func(c *Config) *[]int { return &c.HeadsAt }),
	listable(optional("attention.head_count_kv", func(c *Config) *int { return &c.KVHeads }, func(c *Config) int { return c.Heads }), func(c *Config) *[]int { return &c.KVHeadsAt }),
	optional("attention.key_length", func(c *Config) *int { return &c.HeadSize }, func(c *Config) int {
		if c.Heads == 0 {
			return 0
		}
		return c.Embd / c.Heads
	}),
	{
		name: "attention.value_length", // see refuse
		read: func(*metadata, string, *Config) {},
		write: func(c *Config) any {
			if c.valueSize() == 0 {
				return nil
			}
			return uint32(c.valueSize())
		},
	},
	ofNorms(false, factor("attention.layer_norm_rms_epsilon", func(c *Config) *float32 { return &c.RMSEps }, 0, true)),
	ofNorms(true, factor("attention.layer_norm_epsilon", func(c *Config) *float32 { return &c.LayerNormEps }, 0, true)),
	optional("rope.dimension_count", func(c *Config) *int { return &c.RoPE.Dims }, func(c *Config) int { return c.HeadSize }),
	factor("rope.freq_base", func(c *Config) *float32 { return &c.RoPE.FreqBase }, 10000, false),
}

// ofNorms is a key of models with LayerNorm, or of those with RMSNorm.
func ofNorms(layer bool, k key) key {
	return key{
		name: k.name,
		read: func(m *metadata, name string, c *Config) {
			if n := c.spec().norm; n.layer == layer && !n.byEps {
				k.read(m, name, c)
			}
		},
		write: func(c *Config) any {
			if n := c.spec().norm; n.layer != layer || n.byEps {
				return nil
			}
			return k.write(c)
		},
	}
}

// llama.cpp requires the vocabulary's key; these values stand for no vocabulary.
const (
	VocabularyKey  = "tokenizer.ggml.model"
	NoVocabulary   = "no_vocab"
	testVocabulary = "test" // of stock llama.cpp's random models: tokens without texts
)

// HasVocabulary reports whether a file has one.
func HasVocabulary(g *ggml.GGUF) bool {
	kind, ok := g.Value(VocabularyKey)
	return ok && kind != NoVocabulary && kind != testVocabulary
}

// HyperParameters are the keys of the architecture in a GGUF file and their values, as stock
// llama.cpp reads them.
func (c Config) HyperParameters() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, k := range c.spec().allKeys() {
			name := c.key(k.name)
			if k.unprefixed {
				name = k.name
			}
			if v := k.write(&c); v != nil && !yield(name, v) {
				return
			}
		}
		for _, kv := range slices.Concat(c.scalingKeys(), c.sectionsKeys()) {
			if !yield(kv.key, kv.value) {
				return
			}
		}
	}
}

// WriteKeys sets the hyper-parameters and the name in a GGUF file, and marks it as a file without a vocabulary.
func (c Config) WriteKeys(g *ggml.GGUF) error {
	for _, kv := range []keyValue{
		{"general.architecture", c.Arch},
		{"general.type", "model"},
		{"general.name", c.Name},
		{VocabularyKey, NoVocabulary},
	} {
		if err := g.Set(kv.key, kv.value); err != nil {
			return err
		}
	}
	for key, value := range c.HyperParameters() {
		if err := g.Set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// A keyValue is a key of a file.
type keyValue struct {
	key   string
	value any
}
