package arch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A spec describes a kind of model: data, not code.
type spec struct {
	rope     ggml.RoPEMode
	sections ggml.RoPEMode // mode of files that divide positions into sections, as for images; RoPENorm: no file does
	noRoPE   bool
	// bidirectional says that tokens attend to later tokens, too.
	bidirectional bool
	// ropeFactors says that a file may have divisors of RoPE's frequencies: one tensor, or one for short and one for long
	// contexts.
	ropeFactors bool
	positions   Presence // a matrix of learned positions
	tokenTypes  Presence // a matrix with a row for each type of token

	norm         norming
	embdNorm     embdNorm
	afterEps     float32 // epsilon of the norms after attention and network, if it differs
	norms        norms
	ffnNorm      Kind   // name of ffn_norm, if it differs
	attnOutput   Kind   // name of attn_output, if it differs
	outputNorm   Kind   // name of output_norm, if it differs
	noOutputNorm bool   // the layers' result is the output matrix's input
	blockNames   string // begins the names of blocks
	qkNorm       QKNorm
	// Norms of queries and keys: whether a file has them, whether they follow RoPE, whether they have biases.
	qkNormThere     Presence
	qkNormAfterRoPE bool
	qkNormBias      Presence
	qkLayerEps      float32 // they are LayerNorms with this epsilon; 0: the model's norms

	act     ggml.GLU
	ungated Activation
	// fusedGateUp says that W_gate and W_up are one matrix ffn_up [n_embd, 2·n_ff].
	fusedGateUp Presence
	// actScales says that a file may have divisors of the result of ungated.
	actScales bool
	// ffnScales are the factors of the feed-forward network's products with their biases. Stock
	// llama.cpp ignores factors in other models.
	ffnScales    bool
	ffnDownScale bool // only ffn_down's factor
	// Biases of attn_output and of the feed-forward network. Any model may have biases of queries,
	// keys and values.
	attnBias, ffnBias Presence
	qkvBias           Presence
	noQKVScale        bool // scales of the matrices of queries, keys and values are ignored, as in stock llama.cpp

	// perLayer says that numbers of heads and widths may differ between layers.
	perLayer bool
	// valuesOfKeys says that layers without a matrix of values take the product of the keys' matrix.
	valuesOfKeys bool
	// keys are the keys that other architectures lack, or read differently.
	keys []key
	// ownLayerEmbd says that the embeddings of layers are projections of a token's embedding alone, see [LayerEmbedding].
	ownLayerEmbd bool
	// layer changes the attention of layer i; nil changes nothing.
	layer func(c *Config, i int, a *Attention)
	// arrange makes a layer of attention and network; nil puts one after the other.
	arrange func(c *Config, i int, attention, network Residual) Layer
	// layerOrder passes the embedded x through the layers, from a place outside of them; nil: one after the other. blocks lists the block
	// of the file that has the weights of each layer; nil: as many blocks as layers.
	layerOrder func(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value
	blocks     func(c *Config) []int
	// complete derives the fields that no key says, after the keys are read.
	complete func(c *Config)

	// encoder says that a model computes vectors of texts and no logits. classifier is the head by which it may score them.
	encoder    bool
	classifier *classifierHead
	project    func(b *Builder, t *nn.Tape, x *nn.Value) *nn.Value // projects pooled hidden states to vectors; nil: they are the vectors

	untied bool // the output matrix is required
	tied   bool // there is no output matrix: the embedding is used
	// scaledLater says that transformers scales embeddings outside of their module.
	scaledLater bool
	// logitsTimesScale says that logits are multiplied by their scale, not divided.
	logitsTimesScale bool
	outputBias       Presence
	// imageTokens is the range [first, end) of ids that a text model never chooses: their logits become the least number if the
	// vocabulary has all of them.
	imageTokens  [2]int
	outputNoLoRA bool // the output matrix is not adapted, see [Weight]
	embdNoLoRA   bool // nor is the embedding

	mayHave    []Kind                   // optional tensors of layers, see [Config.Has]
	unsuffixed []Kind                   // kinds of weights whose names lack the suffix .weight
	kept       []Kind                   // kinds of matrices that llama-quantize does not convert, see [Weight.KeepType]
	unused     func(c *Config) []Weight // tensors of files that nothing computes with
	// unusedInLayers are unused weights that each layer may have.
	unusedInLayers func(c *Config) []Weight
	noExperts      bool // a number of experts in a file means nothing
	modules        naming
	// inModules returns the path in transformers of a block's layer; nil: the path of modules.
	inModules func(c *Config, block int) string
	mixture   *mixture // mixture of experts; nil: no model has one
}

// embdNorm says whether embeddings are normalised.
type embdNorm int

const (
	noEmbdNorm embdNorm = iota
	weightedNorm
	bareNorm // without weights
)

// norms says where the norms of a layer stand, around attention and around the
// feed-forward network.
type norms int

const (
	normBefore norms = 1 << iota
	normAfter
	normSum // of the residual stream, behind each of both; then there is none behind the layers
)

// specs has the row of each architecture. A family's rows, and its peculiarities, are in a file of
// its name.
var specs = map[string]spec{}

// family adds rows.
func family(rows map[string]spec) { maps.Copy(specs, rows) }

// spec is the row of the model.
func (c Config) spec() *spec {
	s := specs[c.Arch]
	return &s
}

// layerModule is the path in transformers of the layer that is a block.
func (s *spec) layerModule(c *Config, block int) string {
	if s.inModules != nil {
		return s.inModules(c, block)
	}
	return fmt.Sprintf(s.modules.layer(), block)
}

// blocks returns the block of the file that has the weights of each layer.
func (c Config) blocks() []int {
	if s := c.spec(); s.blocks != nil {
		return s.blocks(&c)
	}
	list := make([]int, c.Layers)
	for i := range list {
		list[i] = i
	}
	return list
}

// layers returns the layers of a model: attention and a feed-forward network each.
func (s spec) layers(c Config) []Layer {
	list := make([]Layer, c.Layers)
	for i := range list {
		attention, network := s.residuals(c, i)
		if s.arrange != nil {
			list[i] = s.arrange(&c, i, attention, network)
		} else {
			list[i] = Layer{attention, network}
		}
	}
	return list
}

// residuals are attention and the feed-forward network of layer i, with their norms.
func (s spec) residuals(c Config, i int) (attention, network Residual) {
	norm := func(there norms, name Kind) Kind {
		if s.norms&there == 0 {
			return ""
		}
		return name
	}
	attention = Residual{
		Before: norm(normBefore, "attn_norm"), After: norm(normAfter, "post_attention_norm"), AfterEps: s.afterEps, Scale: c.ResidualScale,
		Sum: norm(normSum, "attn_output_norm"), Part: s.attention(c, i),
	}
	network = Residual{
		Before: norm(normBefore, cmp.Or(s.ffnNorm, "ffn_norm")), After: norm(normAfter, "post_ffw_norm"), AfterEps: s.afterEps, Scale: c.ResidualScale, Sum: norm(normSum, "layer_output_norm"), Tokenwise: true,
		Part: FeedForward{
			Width: at(c.FFs, i, c.FF), Act: s.act, Ungated: s.ungated, ActScales: s.actScales, FusedGateUp: s.fusedGateUp == Always || c.FusedGateUp, Biases: s.ffnBias, Scales: s.ffnScales, DownScale: s.ffnDownScale,
		},
	}
	if experts, ok := s.expertsOf(c, i); ok {
		network.Part, network.Tokenwise = experts, false // in chunks each expert would be read more than once
	}
	return attention, network
}

// at returns a list's value for layer i, or the value of all.
func at(list []int, i, all int) int {
	if list == nil {
		return all
	}
	return list[i]
}

// attention returns the attention of layer i.
func (s spec) attention(c Config, i int) Attention {
	a := Attention{
		Heads: at(c.HeadsAt, i, c.Heads), KVHeads: at(c.KVHeadsAt, i, c.KVHeads), HeadSize: c.HeadSize,
		Scale: c.attentionScale(), Softcap: c.AttnSoftcap, MaxALiBiBias: c.MaxALiBiBias, ClampQKV: c.ClampQKV,
		Bidirectional: s.bidirectional, RoPE: c.RoPE, NoRoPE: s.noRoPE, RoPEFactors: s.ropeFactors,
		Temperature: Temperature{c.AttnTempScale, c.AttnTempLength, c.AttnTempOffset},
		QKNorm:      s.qkNorm, NormAfterRoPE: s.qkNormAfterRoPE, FusedQKV: c.FusedQKV, QKVBias: max(Maybe, s.qkvBias), OutputBias: s.attnBias,
		NoQKVScale: s.noQKVScale, Relative: Relative{Buckets: c.RelativeBuckets},
	}
	a.RoPE.AttnFactor *= yarnMagnitude(c.RoPE, c.YaRNLogMul)
	if s.layer != nil {
		s.layer(&c, i, &a)
	}
	return a
}

// Architectures lists the values of general.architecture of the language models that are supported.
func Architectures() []string { return kinds(false) }

// Encoders lists the values of general.architecture of the supported models that make vectors and scores of texts, and no
// logits.
func Encoders() []string { return kinds(true) }

func kinds(encoder bool) []string {
	names := slices.Sorted(maps.Keys(specs))
	return slices.DeleteFunc(names, func(name string) bool { return specs[name].encoder != encoder })
}

// supported lists all kinds of models, for errors.
func supported() string {
	return fmt.Sprintf("%s; only for embeddings: %s", strings.Join(Architectures(), ", "), strings.Join(Encoders(), ", "))
}

// skipRoPE leaves each so many-th layer without position embedding (NoPE).
func skipRoPE(c *Config, i int, a *Attention) {
	a.NoRoPE = c.NoRoPEStep > 0 && (i+1)%c.NoRoPEStep == 0
}

// unused is a tensor of files that stock llama.cpp reads, and does not compute with.
func unused(name string, shape ...int) Weight {
	w := Weight{Name: name, Role: Unused, Optional: true}
	for _, n := range shape {
		w.Shape = append(w.Shape, int64(n))
	}
	return w
}

// unusedFactors returns the factors of frequencies in files whose models do not use them.
func unusedFactors(c *Config) []Weight { return []Weight{unused("rope_freqs.weight", c.RoPE.Dims/2)} }
