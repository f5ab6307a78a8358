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
	Context  int    // tokens of the longest sequence in training
	Embd     int    // width of the residual stream
	FF       int    // width of the feed-forward network
	Layers   int
	Heads    int
	KVHeads  int // a divisor of Heads
	HeadSize int
	RMSEps   float32 // epsilon of RMSNorm
	RoPE     ggml.RoPE
	Tied     bool // the output matrix is the token embedding
	FusedQKV bool // queries, keys and values are one matrix
	// FusedGateUp says that W_gate and W_up are one matrix, in architectures whose files may have one or two.
	FusedGateUp bool

	// HeadsAt, KVHeadsAt and FFs are the values of each layer, if they differ; Heads, KVHeads and FF are then the largest.
	HeadsAt, KVHeadsAt, FFs []int
	// Has lists the optional kinds of tensors that this model has.
	Has []Kind

	LayerNormEps float32 // epsilon of LayerNorm
	NormGroups   int     // groups into which a norm divides the residual stream; 0: none

	Window        int     // keys that a query of a local layer sees; 0: no layer is local
	WindowPattern int     // every WindowPattern-th layer is global
	LocalLayers   []bool  // whether each layer is local, if no such pattern says it
	LocalFreqBase float32 // frequency base of RoPE in local layers, if it differs
	LocalHeadSize int     // head size of local layers, if it differs; 0: HeadSize
	LocalRoPEDims int     // elements of a head that RoPE rotates in local layers, if the number differs; 0: RoPE.Dims
	LocalFactor   float32 // scaling factor of RoPE in local layers alone; 0: none
	NoRoPEStep    int     // every NoRoPEStep-th layer has no RoPE; 0: all have it
	RoPELayers    []bool  // whether each layer has RoPE, if no such step says it
	SwinNorm      bool    // norms follow attention and feed-forward network, in architectures whose models may differ
	Parallel      bool    // attention and feed-forward network have the same input, in architectures whose models may differ

	// See [Experts]. SharedFF is the width of the network that computes all tokens; 0 stands for the
	// width of SharedExperts experts. The first DenseLayers have no experts; of the others, every
	// ExpertStep-th has.
	Experts, ExpertsUsed    int
	ExpertGroups            int // a token chooses experts from ExpertGroupsUsed of the groups; 0 and 1: from all experts
	ExpertGroupsUsed        int
	ExpertFF                int   // width of an expert; 0 is FF
	ExpertFFs               []int // width of an expert in each layer, if they differ; ExpertFF is then the largest
	ValueExperts            int   // experts of attention's values; a token uses ValueExpertsUsed of them
	ValueExpertsUsed        int
	ExpertLatent            int // width of the experts' input, if it differs from Embd
	SharedExperts, SharedFF int
	DenseLayers, ExpertStep int
	Gating                  Gating
	NormalizedExperts       bool
	ExpertScale             float32
	FusedExperts            bool // W_gate and W_up of the experts are one matrix
	SwiGLUClamp             float32
	// Bounds of SwiGLU in each layer, for experts and for other networks, see FeedForward.Clamp; nil: none.
	ExpertClamps, Clamps []float32
	ChunkFF              int     // width of small experts; 0 is HeadSize
	ChunkScale           float32 // factor of the small experts' result

	// Models with two stacks of StackLayers layers pass through the high stack in each of HighCycles, after
	// LowCycles passes through the low one.
	StackLayers, HighCycles, LowCycles int

	EmbdScale     float32            // factor of embeddings
	ResidualScale float32            // factor of each addition to the residual stream
	ResidualStep  int                // layers after which the residual stream starts anew, see [AttentionResidual]; 0: never
	SiTU          SiTU               // activation; the zero value is the architecture's
	AttnScale     float32            // factor of the scores q·k; 0 is 1/√HeadSize
	AttnSoftcap   float32            // soft cap of scores: scores x become cap·tanh(x/cap); 0: none
	MaxALiBiBias  float32            // ALiBi's largest bias in the file, from which the slopes of heads follow; 0: no ALiBi
	XIELU         []ggml.XIELUParams // parameters of the activation in each layer
	ClampQKV      float32            // bound of queries, keys and values, in both directions; 0: none
	LogitScale    float32            // divisor of logits, or their factor
	LogitSoftcap  float32            // soft cap of logits; 0: none

	SharedKVLayers int    // the last layers, which read keys and values of earlier layers
	ValuesOfKeys   []bool // layers without a matrix of values, which take the product of the keys' matrix; nil: none
	LayerEmbd      int    // width of each layer's own embedding of a token, see [LayerEmbedding]; 0: none

	ConvLength int // taps of a short convolution, in tokens

	// See [Attention], [Indexer], [HyperConnected], [NGramEmbedding] and [Switch].
	IndexHeads, IndexHeadSize int
	IndexKeys                 int // keys that an indexer chooses for each query; 0: no indexer
	IndexBlock                int // adjacent keys that an indexer chooses together; 0: it chooses each
	IndexLocal                int // blocks that each query always sees, the last ones up to its own; IndexKeys counts them
	IndexPool                 int // adjacent keys that it chooses by a key of their own; 0: it chooses each
	// OwnIndexers says of each layer whether it has an indexer; others take an earlier layer's choice. nil: all have one.
	OwnIndexers []bool
	Streams     int // residual streams; 0: one
	StreamRank  int // rank of the gates of streams
	// See [StreamGates] and [SinkhornStreams].
	StreamIterations           int
	StreamMagnitude, StreamEps float32
	NGrams                     NGrams
	NGramHash                  NGramHash
	NGramRows                  int // of the table
	Switch                     Switch
	SwitchTokens               SwitchTokens

	// See [DeltaNet], [Mamba] and [Mamba2]. Inner is the width of the values of all heads. Recurrent tells recurrent layers
	// from attention, unless every AttentionStep-th layer has attention.
	StateSize, StateHeads, StateKHeads, Inner int
	AttentionStep                             int
	Recurrent                                 []bool
	DecayBound                                float32 // see [KimiDelta]
	BareScanNorms                             bool
	NextLayers                                int // last layers of the file, for multi-token prediction; nothing computes them

	// See [TimeMix7] and [TimeMix6]. After each RescaleStep layers the residual stream is halved; 0: never.
	DecayRank, RateRank, ValueRank, GateRank, MixRank, RescaleStep int

	// See [LatentAttention]. ValueSize is the size of values in the cache, if it differs from the keys'.
	// The sizes with MLA are the sizes of heads if the cache has latent vectors.
	QRank, KVRank, ValueSize, KeySizeMLA, ValueSizeMLA int
	// Sizes of latent attention in local layers, in architectures whose layers differ.
	LocalKVRank, LocalKeySizeMLA, LocalValueSizeMLA int

	// See [CompressedAttention]. Ratios lists the tokens of a compressed key, or of an indexer's block, in each layer; 0: the layer
	// has none.
	OutGroups, OutRank int
	Ratios             []int
	CompressedFreqBase float32 // of RoPE in layers with compressed keys
	HashLayers         int     // first layers, in which a table has the experts of each token

	// See [Temperature].
	AttnTempScale  float32
	AttnTempLength int
	AttnTempOffset float32
	YaRNLogMul     float32 // multiplier of the logarithm in YaRN's magnitude

	// Models that embed texts. Labels names the scores of a classifier that has several; nil: it has one.
	TokenTypes      int    // rows of the matrix of token types
	RelativeBuckets int    // see [Relative]
	VectorSize      int    // size of a text's vector, if a matrix projects to it
	ProjectionWidth int    // width between the two matrices that project pooled hidden states; 0: no projection
	HiddenAct       string // name of the activation, in architectures whose models may differ
	ClassifierPool  int    // pooling of a classifier by its number in files, if they say it; 0: the architecture's
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
		if _, ok := g.Tensor(s.blockPrefix(0) + string(kind) + ".weight"); ok {
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
		m.fault("tensor token_embd.weight is missing or not a matrix")
		return
	}
	if HasVocabulary(m.g) {
		return
	}
	if n := m.size("vocab_size", c.Vocab, true); n != c.Vocab {
		m.fault("%s.vocab_size is %d, but token_embd.weight has %d rows", m.arch, n, c.Vocab)
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
func (c Config) has(kind Kind) bool { return slices.Contains(c.Has, kind) }

// hasKey reports whether models of the architecture have a key of their own.
func (c Config) hasKey(name string) bool {
	return slices.ContainsFunc(c.spec().keys, func(k key) bool { return k.name == name })
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

func positive(x float32) bool { return x > 0 && finite(x) }

// elsewhere are fields that tensors decide, or that faults compares with what files hold.
var elsewhere = []string{"Name", "Vocab", "Tied", "FusedQKV", "FusedGateUp", "Has", "ValuesOfKeys", "RoPE", "LocalFreqBase", "NGramRows"}

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
			faults = append(faults, fmt.Sprintf("%s is %v, but files of this architecture can only have %v", name, a, b))
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
