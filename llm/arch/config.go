package arch

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A Config is the hyper-parameters of a model. The zero value of what not every
// model has stands for its absence.
type Config struct {
	Arch     string // general.architecture, one of [Architectures]
	Name     string // general.name
	Vocab    int    // tokens of the vocabulary
	Context  int    // positions it was trained on
	Embd     int    // width of the residual stream
	FF       int    // width of the feed-forward layer
	Layers   int
	Heads    int
	KVHeads  int // a divisor of Heads
	HeadSize int
	RMSEps   float32 // of models with RMSNorm
	RoPE     ggml.RoPE
	Tied     bool // the output matrix is the token embedding
	FusedQKV bool // queries, keys and values are one matrix
	// FusedGateUp: the feed-forward network's gate and what it gates are one matrix, in models that may have it so.
	FusedGateUp bool

	// Heads, KVHeads and FF of each layer, where they are the most of all; nil: all have the same.
	HeadsAt, KVHeadsAt, FFs []int
	// Has are kinds of tensors that this model has, and others of its architecture may lack.
	Has []string

	LayerNormEps float32 // of models with LayerNorm
	NormGroups   int     // elements of the residual stream that are normalised together; 0: all

	Window        int     // keys that a query of a local layer sees; 0: no layer is local
	WindowPattern int     // each so many-th layer is global
	LocalLayers   []bool  // which layers are local, if they follow no such pattern
	LocalFreqBase float32 // of RoPE in local layers, where it has another
	LocalHeadSize int     // of heads of local layers, where they have another; 0: HeadSize
	LocalRoPEDims int     // elements of a head that RoPE rotates in local layers, where it is another number; 0: as everywhere
	LocalFactor   float32 // by which RoPE is stretched in local layers alone; 0 means none
	NoRoPEStep    int     // each so many-th layer goes without RoPE; 0: none
	RoPELayers    []bool  // which layers have RoPE, if they follow no such step
	Parallel      bool    // attention and network see the same, in models that may do so

	// See [Experts]. SharedFF is the width of the network that all tokens go through, 0 for the
	// width of SharedExperts. The first DenseLayers have no experts; of the others each
	// ExpertStep-th has.
	Experts, ExpertsUsed    int
	ExpertGroups            int // only experts of ExpertGroupsUsed groups are chosen; 0 and 1: of all
	ExpertGroupsUsed        int
	ExpertFF                int   // width of an expert; 0 is FF
	ExpertFFs               []int // in each layer, where it is the most of all; nil: all have the same
	ValueExperts            int   // of values; a token uses ValueExpertsUsed of them
	ValueExpertsUsed        int
	ExpertLatent            int // width of what experts see, where it is another than Embd
	SharedExperts, SharedFF int
	DenseLayers, ExpertStep int
	Gating                  Gating
	NormalizedExperts       bool
	ExpertScale             float32
	FusedExperts            bool // gate and up are one matrix
	SwiGLUClamp             float32
	// What SwiGLU is limited to in each layer, of experts and of other networks, see [FeedForward]; nil: nothing.
	ExpertClamps, Clamps []float32
	ChunkFF              int     // width of small experts; 0 is HeadSize
	ChunkScale           float32 // of what they make

	// Of models that pass two stacks of so many layers: the high one in each of HighCycles, after
	// LowCycles of the low one.
	StackLayers, HighCycles, LowCycles int

	EmbdScale     float32            // of embeddings
	ResidualScale float32            // of what a layer adds to the residual stream
	AttnScale     float32            // of q·k; 0 is 1/√HeadSize
	AttnSoftcap   float32            // that scores are bent to
	MaxALiBiBias  float32            // of ALiBi; 0 means none
	XIELU         []ggml.XIELUParams // of each layer, of models with this activation
	ClampQKV      float32            // that queries, keys and values are limited to
	LogitScale    float32            // that logits are divided by, or multiplied
	LogitSoftcap  float32            // that logits are bent to

	SharedKVLayers int    // at the end, which read the keys and values of layers before
	ValuesOfKeys   []bool // layers whose values are what the matrix of keys makes; nil: none
	LayerEmbd      int    // width of the embedding that each layer has, see [LayerEmbedding]; 0: there is none

	ConvLength int // tokens that a short convolution sees

	// See [DeltaNet], [Mamba] and [Mamba2]. Inner is the width of all its values. Recurrent are the layers that have it, where these are not all but
	// each AttentionStep-th.
	StateSize, StateHeads, StateKHeads, Inner int
	AttentionStep                             int
	Recurrent                                 []bool
	BareScanNorms                             bool
	NextLayers                                int // that predict tokens after the next, behind the others; nothing computes them

	// See [LatentAttention]. ValueSize is the size of values in the cache, if it differs from the keys'.
	// The sizes with MLA are the sizes of heads if the cache has latent vectors.
	QRank, KVRank, ValueSize, KeySizeMLA, ValueSizeMLA int

	// See [Temperature].
	AttnTempScale  float32
	AttnTempLength int
	AttnTempOffset float32
	YaRNLogMul     float32 // of the magnitude of YaRN

	// Of models that embed texts. Labels name the scores of a classifier of several; nil: it has one.
	TokenTypes      int    // rows of the matrix of types
	RelativeBuckets int    // see [Relative]
	VectorSize      int    // of the vector of a text, where a matrix makes it
	ProjectionWidth int    // between the two matrices that make a vector of pooled hidden states; 0: there are none
	HiddenAct       string // the activation, where models may have several
	ClassifierPool  int    // pooling of a classifier by its number in files, where these say it; 0: as all of its kind
	Labels          []string
}

// ErrUnsupported is a model of a kind that this package does not compute.
var ErrUnsupported = errors.New("unsupported model")

// embdNoiseScale is the factor by which noise on embeddings as transformers' module gives
// them counts in the residual stream: most modules scale what they look up themselves.
func (c Config) embdNoiseScale() float32 {
	if c.spec().scaledLater && c.EmbdScale != 0 {
		return c.EmbdScale
	}
	return 1
}

// attentionScale is the factor of q·k.
func (c Config) attentionScale() float32 {
	if c.AttnScale != 0 {
		return c.AttnScale
	}
	return float32(1 / math.Sqrt(float64(c.HeadSize)))
}

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
	s, ok := specs[arch]
	if !ok {
		return Config{}, fmt.Errorf("%s: %w: architecture %q; supported: %s", g.Name(), ErrUnsupported, arch, supported())
	}
	c := Config{Arch: arch}
	m := &metadata{g: g, arch: arch, perLayer: s.perLayer}
	c.Name = value(m, "general.name", "", true)
	m.readKeys(&c, s)
	m.readVocabulary(&c)
	_, output := g.Tensor("output.weight")
	c.Tied = s.tied || !output && !s.untied && !s.encoder
	_, c.FusedQKV = g.Tensor(fmt.Sprintf("blk.%d.attn_qkv.weight", c.firstAttention()))
	_, c.FusedExperts = g.Tensor(fmt.Sprintf("blk.%d.ffn_gate_up_exps.weight", c.Layers-1))
	c.ValuesOfKeys = m.withoutValues(c, s)
	for _, kind := range s.mayHave {
		if _, ok := g.Tensor(s.blockPrefix(0) + kind + ".weight"); ok {
			c.Has = append(c.Has, kind)
		}
	}
	if up, ok := g.Tensor("blk.0.ffn_up.weight"); ok && s.fusedGateUp == Maybe {
		c.FusedGateUp = len(up.Shape) > 1 && up.Shape[1] == 2*int64(c.FF)
	}
	if len(m.faults) == 0 {
		m.faults = c.faults()
	}
	if len(m.faults) == 0 {
		m.faults = c.partFaults(s.layers(c))
	}
	if len(m.faults) > 0 {
		return Config{}, fmt.Errorf("%s: %w: %s", g.Name(), ErrUnsupported, strings.Join(m.faults, "; "))
	}
	return c, nil
}

// numTokens returns the number of rows of the embedding; 0 if there is none.
func (m *metadata) numTokens() int64 {
	t, ok := m.g.Tensor("token_embd.weight")
	if !ok || len(t.Shape) < 2 {
		return 0
	}
	return t.Shape[1]
}

// readVocabulary takes the number of tokens from the embedding. The key counts where
// there is no vocabulary, as for llama.cpp: others are compared with that.
func (m *metadata) readVocabulary(c *Config) {
	c.Vocab = int(m.numTokens())
	if c.Vocab == 0 {
		m.fault("tensor token_embd.weight is missing, or no matrix")
		return
	}
	if HasVocabulary(m.g) {
		return
	}
	if n := m.size("vocab_size", c.Vocab, true); n != c.Vocab {
		m.fault("%s.vocab_size is %d, and token_embd.weight has %d rows", m.arch, n, c.Vocab)
	}
}

// ropeMode returns the RoPE mode of files with these hyper-parameters.
func (c Config) ropeMode() ggml.RoPEMode {
	if s := c.spec(); s.sections != ggml.RoPENorm && c.RoPE.Sections != [4]int{} {
		return s.sections
	}
	return c.spec().rope
}

// key is the name in files of a key of the architecture.
func (c Config) key(name string) string { return c.Arch + "." + name }

// has reports whether the model has a tensor that others lack.
func (c Config) has(kind string) bool { return slices.Contains(c.Has, kind) }

// hasKey reports whether models of the architecture have a key of their own.
func (c Config) hasKey(name string) bool {
	return slices.ContainsFunc(c.spec().keys, func(k key) bool { return k.name == name })
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

func positive(x float32) bool { return x > 0 && finite(x) }

// elsewhere are fields that tensors decide, or that faults compares with what files hold.
var elsewhere = []string{"Name", "Vocab", "Tied", "FusedQKV", "FusedGateUp", "Has", "ValuesOfKeys", "RoPE", "LocalFreqBase"}

// unsaid lists the fields that the keys of the architecture do not say: a model with them
// would be another once it is written and read.
func (c Config) unsaid() ([]string, error) {
	g, err := ggml.NewGGUF()
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if err := c.WriteKeys(g); err != nil {
		return nil, err
	}
	said, m := Config{Arch: c.Arch}, &metadata{g: g, arch: c.Arch, perLayer: c.spec().perLayer}
	m.readKeys(&said, *c.spec())
	faults := m.faults
	is, written := reflect.ValueOf(c), reflect.ValueOf(said)
	for i := range is.NumField() {
		name := is.Type().Field(i).Name
		if a, b := is.Field(i), written.Field(i); !slices.Contains(elsewhere, name) && !reflect.DeepEqual(a.Interface(), b.Interface()) {
			faults = append(faults, fmt.Sprintf("%s is %v, and files of this architecture make it %v", name, a, b))
		}
	}
	return faults, nil
}

// Validate checks that the numbers fit together, and that a file can hold them.
func (c Config) Validate() error {
	if _, err := Resolve(c); err != nil {
		return err
	}
	faults, err := c.unsaid()
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(faults, "; "))
	}
	return err
}

// check checks that the numbers fit together.
func (c Config) check() error {
	if _, ok := specs[c.Arch]; !ok {
		return fmt.Errorf("%w: architecture %q; supported: %s", ErrUnsupported, c.Arch, supported())
	}
	if faults := c.faults(); len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(faults, "; "))
	}
	return nil
}
