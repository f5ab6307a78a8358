package arch

import (
	"fmt"
	"math"
	"slices"
)

// maxLayers is stock llama.cpp's limit: a list of their tensors is made before the file is read.
const maxLayers = 512

// maxExperts is stock llama.cpp's limit.
const maxExperts = 1024

// maxWidth is more than models have. Up to it F32 numbers rows exactly, and the sizes of
// matrices do not overflow.
const maxWidth = 1 << 24

// partFaults lists what is wrong with the parts of layers, each fault once.
func (c Config) partFaults(layers []Layer) (faults []string) {
	for _, l := range layers {
		parts(l, func(p Part) {
			part, ok := p.(Checked)
			if !ok {
				return
			}
			for _, fault := range part.Check(c) {
				if !slices.Contains(faults, fault) {
					faults = append(faults, fault)
				}
			}
		})
	}
	return faults
}

// A configCheck lists the faults of a configuration, by the keys of files.
type configCheck struct {
	Config
	faults []string
}

// require adds a fault unless ok.
func (c *configCheck) require(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// faults lists where the configuration contradicts itself; partFaults lists what parts of layers demand.
func (c Config) faults() []string {
	check := &configCheck{Config: c}
	if check.sizes(); len(check.faults) > 0 {
		return check.faults
	}
	check.widths()
	check.rope()
	check.norms()
	check.localLayers()
	check.factors()
	check.experts()
	check.latentAttention()
	check.sinkhorn()
	check.cycles()
	check.valueExperts()
	check.xielu()
	check.lists()
	return check.faults
}

func (c *configCheck) sizes() {
	for _, n := range []struct {
		name  string
		least int // parts may demand more
		value int
	}{
		{"embedding_length_out", 0, c.VectorSize}, {"dense_2_feat_out", 0, c.ProjectionWidth}, {"attention.relative_buckets_count", 0, c.RelativeBuckets},
		{"vocab_size", 1, c.Vocab}, {"context_length", 1, c.Context}, {"embedding_length", 1, c.Embd}, {"feed_forward_length", 0, c.FF},
		{"block_count", 1, c.Layers}, {"attn_res.block_size", 0, c.ResidualStep}, {"hyper_connection.count", 0, c.Streams}, {"hyper_connection.low_rank", 0, c.StreamRank}, {"attention.indexer.top_k", 0, c.IndexKeys}, {"attention.indexer.head_count", 0, c.IndexHeads}, {"attention.indexer.key_length", 0, c.IndexHeadSize}, {"attention.indexer.block_size", 0, c.IndexBlock}, {"attention.indexer.local_blocks", 0, c.IndexLocal}, {"attention.indexer.kpool", 0, c.IndexPool}, {"attention.head_count", 0, c.Heads}, {"attention.head_count_kv", 0, c.KVHeads}, {"attention.key_length", 0, c.HeadSize},
	} {
		c.require(n.value >= n.least && n.value <= math.MaxInt32, "%s is %d", c.key(n.name), n.value)
	}
	c.require(c.Layers <= maxLayers, "there are %d layers; the limit is %d", c.Layers, maxLayers)
}

// widths bounds the dimensions of matrices.
func (c *configCheck) widths() {
	for _, width := range []int{c.Vocab, c.Embd, 2 * c.FF, c.VectorSize, c.ProjectionWidth, c.Heads * max(c.HeadSize, c.LocalHeadSize), c.KVHeads * c.HeadSize, c.LayerEmbd * c.Layers, c.Streams * c.Embd, c.StreamRank, c.IndexHeads * c.IndexHeadSize, c.IndexPool} {
		c.require(width <= maxWidth, "a matrix has rows or columns of %d elements; the limit is %d", width, maxWidth)
	}
}

func (c *configCheck) rope() {
	r := c.RoPE
	c.require(positive(r.FreqBase), "%s is %v", c.key("rope.freq_base"), r.FreqBase)
	c.require(positive(r.FreqScale), "%s is %v", c.key("rope.scaling.factor"), 1/r.FreqScale)
	c.require(r.TrainedCtx >= 0 && r.TrainedCtx <= math.MaxInt32, "%s is %d", c.key("rope.scaling.original_context_length"), r.TrainedCtx)
	c.require(finite(r.AttnFactor), "%s is %v", c.key("rope.scaling.attn_factor"), r.AttnFactor)
	c.require(r.Mode == c.ropeMode(), "RoPE mode %v belongs to another architecture", r.Mode)
	c.require(r.ExtFactor == 0 || r.ExtFactor == yarnExtFactor, "YaRN has factor %v; files can only have %v", r.ExtFactor, yarnExtFactor)
	betas := r.BetaFast == yarnBetaFast && r.BetaSlow == yarnBetaSlow
	if c.hasKey("rope.scaling.yarn_beta_fast") {
		betas = positive(r.BetaFast) && positive(r.BetaSlow)
	}
	c.require(finite(r.BetaFast) && finite(r.BetaSlow) && (r.ExtFactor == 0 || betas), "YaRN has betas %v and %v; files of this architecture can only have %v and %v", r.BetaFast, r.BetaSlow, yarnBetaFast, yarnBetaSlow)
}

func (c *configCheck) norms() {
	c.require(c.RMSEps >= 0 && finite(c.RMSEps), "%s is %v", c.key("attention.layer_norm_rms_epsilon"), c.RMSEps)
	c.require(c.LayerNormEps >= 0 && finite(c.LayerNormEps), "%s is %v", c.key("attention.layer_norm_epsilon"), c.LayerNormEps)
	c.require(c.NormGroups >= 0 && (c.NormGroups == 0 || c.Embd%c.NormGroups == 0), "%s is %d, and does not divide %s, which is %d", c.key("attention.group_norm_groups"), c.NormGroups, c.key("embedding_length"), c.Embd)
}

// localLayers checks windows, and what layers with a window have of their own or share.
func (c *configCheck) localLayers() {
	c.require(c.Window >= 0 && c.Window <= math.MaxInt32, "%s is %d", c.key("attention.sliding_window"), c.Window)
	c.require(c.Window == 0 || c.WindowPattern > 0 || c.LocalLayers != nil, "%s is %d", c.key("attention.sliding_window_pattern"), c.WindowPattern)
	if c.hasKey(localFreqBase) {
		c.require(c.Window == 0 || positive(c.LocalFreqBase), "%s is %v", c.key(localFreqBase), c.LocalFreqBase)
	} else {
		c.require(c.LocalFreqBase == 0 || c.LocalFreqBase == c.RoPE.FreqBase, "%s is %v, but the base of all layers is %v", c.key(localFreqBase), c.LocalFreqBase, c.RoPE.FreqBase)
	}
	c.require(c.SharedKVLayers >= 0 && c.SharedKVLayers < c.Layers, "%s is %d, but there are %d layers", c.key("attention.shared_kv_layers"), c.SharedKVLayers, c.Layers)
	c.require(c.LayerEmbd >= 0, "%s is %d", c.key("embedding_length_per_layer_input"), c.LayerEmbd)
	c.require(c.LocalFactor >= 0 && finite(c.LocalFactor) && (c.LocalFactor == 0 || c.RoPE.FreqScale == 1 && c.RoPE.ExtFactor == 0), "%s is %v, and cannot apply only to local layers", c.key("rope.scaling.factor"), c.LocalFactor)
}

func (c *configCheck) factors() {
	temperatureLength := "rope.scaling.original_context_length"
	if c.hasKey("attention.temperature_length") {
		temperatureLength = "attention.temperature_length"
	}
	c.require(c.AttnTempScale == 0 || c.AttnTempLength > 0, "%s is %d, but the attention temperature needs it to be positive", c.key(temperatureLength), c.AttnTempLength)
	for _, f := range []struct {
		name  string
		value float32
	}{
		{"attn_logit_softcapping", c.AttnSoftcap}, {"attention.max_alibi_bias", c.MaxALiBiBias}, {"attention.clamp_kqv", c.ClampQKV},
		{"swiglu_clamp_exp", c.SwiGLUClamp}, {"activation.situ_beta", c.SiTU.Gate}, {"activation.situ_linear_beta", c.SiTU.Up}, {"embedding_scale", c.EmbdScale}, {"residual_scale", c.ResidualScale}, {"attention.scale", c.AttnScale}, {"logit_scale", c.LogitScale}, {"kda.gate_lower_bound", c.DecayBound}, {"hyper_connection.epsilon", c.StreamEps}, {"hyper_connection.magnitude", c.StreamMagnitude},
		{"final_logit_softcapping", c.LogitSoftcap}, {"attention.temperature_scale", c.AttnTempScale}, {"attention.temperature_offset", c.AttnTempOffset}, {"rope.scaling.yarn_log_multiplier", c.YaRNLogMul},
	} {
		c.require(finite(f.value), "%s is %v", c.key(f.name), f.value)
	}
	c.require(c.LogitScale != 0 || !c.hasKey("logit_scale"), "%s is 0", c.key("logit_scale"))
	c.require(c.StreamMagnitude > 0 || !c.hasKey("hyper_connection.magnitude"), "%s is %v", c.key("hyper_connection.magnitude"), c.StreamMagnitude)
	c.require(c.SiTU.Gate > 0 || !c.hasKey("activation.situ_beta"), "%s is %v", c.key("activation.situ_beta"), c.SiTU.Gate)
	c.require(c.AttnScale >= 0, "%s is %v", c.key("attention.scale"), c.AttnScale)
	c.require(c.MaxALiBiBias >= 0, "%s is %v", c.key("attention.max_alibi_bias"), c.MaxALiBiBias)
	c.require(!c.hasKey("shortconv.l_cache") || c.ConvLength > 1, "%s is %d", c.key("shortconv.l_cache"), c.ConvLength)
}

func (c *configCheck) experts() {
	if c.Experts == 0 {
		return
	}
	latentSize := "moe_latent_size"
	if c.hasKey("expert_latent_length") {
		latentSize = "expert_latent_length"
	}
	c.require(c.Experts > 0 && c.Experts <= maxExperts, "%s is %d; the limit is %d", c.key("expert_count"), c.Experts, maxExperts)
	c.require(c.ExpertsUsed > 0 && c.ExpertsUsed <= c.Experts, "%s is %d, but must be 1 to %d", c.key("expert_used_count"), c.ExpertsUsed, c.Experts)
	if g := c.ExpertGroups; g > 1 {
		c.require(c.Experts%g == 0 && c.Experts/g > 1, "%s is %d, and does not divide %d experts into groups", c.key("expert_group_count"), g, c.Experts)
		c.require(c.ExpertGroupsUsed > 0 && c.ExpertGroupsUsed <= g, "%s is %d, but must be 1 to %d", c.key("expert_group_used_count"), c.ExpertGroupsUsed, g)
		c.require(c.ExpertsUsed <= c.ExpertGroupsUsed*(c.Experts/g), "%s is %d, more experts than %d groups have", c.key("expert_used_count"), c.ExpertsUsed, c.ExpertGroupsUsed)
	}
	c.require(c.Gating >= GatingSoftMax && c.Gating <= GatingSqrtSoftplus, "%s is %d, which is unsupported", c.key("expert_gating_func"), c.Gating)
	c.require(finite(c.ExpertScale), "%s is %v", c.key("expert_weights_scale"), c.ExpertScale)
	for _, n := range []struct {
		name  string
		value int
	}{
		{"expert_feed_forward_length", 2 * c.ExpertFF}, {latentSize, c.ExpertLatent}, {"expert_shared_feed_forward_length", c.SharedFF}, {"expert_shared_count", c.SharedExperts},
		{"expert_shared_count", c.SharedExperts * max(c.ExpertFF, 1)}, {"leading_dense_block_count", c.DenseLayers}, {"interleave_moe_layer_step", c.ExpertStep},
		{"expert_group_count", c.ExpertGroups}, {"expert_group_used_count", c.ExpertGroupsUsed},
	} {
		c.require(n.value >= 0 && n.value <= maxWidth, "%s is out of range", c.key(n.name))
	}
}

// latentAttention checks the sizes of multi-head latent attention.
func (c *configCheck) latentAttention() {
	if !c.hasKey("attention.kv_lora_rank") {
		return
	}
	require := func(ok bool, name string, size int) { c.require(ok, "%s.attention.%s is %d", c.Arch, name, size) }
	rotated, most := c.RoPE.Dims, maxWidth/max(1, c.Heads)
	require(c.QRank >= 0 && c.QRank <= maxWidth, "q_lora_rank", c.QRank)
	require(c.KVRank > 0 && c.KVRank <= maxWidth, "kv_lora_rank", c.KVRank)
	if c.KeySizeMLA == 0 && c.ValueSizeMLA == 0 {
		require(c.HeadSize >= rotated, "key_length", c.HeadSize)
		require(c.ValueSize > 0 && c.ValueSize <= c.HeadSize, "value_length", c.ValueSize)
		return
	}
	require(c.KeySizeMLA > rotated && c.KeySizeMLA <= most, "key_length_mla", c.KeySizeMLA)
	require(c.ValueSizeMLA > 0 && c.ValueSizeMLA <= most, "value_length_mla", c.ValueSizeMLA)
	require(c.HeadSize == c.KVRank+rotated, "key_length", c.HeadSize)
	require(c.ValueSize == c.KVRank, "value_length", c.ValueSize)
	require(c.KVHeads == 1, "head_count_kv", c.KVHeads)
	if c.hasKey(localKVRank) {
		require(c.LocalKVRank > 0 && c.LocalKVRank <= maxWidth, "kv_lora_rank_swa", c.LocalKVRank)
		require(c.LocalKeySizeMLA > rotated && c.LocalKeySizeMLA <= most, "key_length_mla_swa", c.LocalKeySizeMLA)
		require(c.LocalValueSizeMLA > 0 && c.LocalValueSizeMLA <= most, "value_length_mla_swa", c.LocalValueSizeMLA)
	}
}

// cycles checks that passes through stacks of layers make the number of layers.
func (c *configCheck) cycles() {
	if c.spec().blocks == nil {
		return
	}
	ok := max(c.StackLayers, c.HighCycles, c.LowCycles) <= maxLayers && c.StackLayers*c.HighCycles*(c.LowCycles+1) == c.Layers
	c.require(ok, "%s is %d, not the product of %d layers per stack, %d high cycles, and %d low cycles plus 1", c.key("block_count"), c.Layers, c.StackLayers, c.HighCycles, c.LowCycles)
}

func (c *configCheck) valueExperts() {
	if c.ValueExperts == 0 {
		return
	}
	c.require(c.ValueExperts > 0 && c.ValueExperts <= maxExperts, "%s is %d; the limit is %d", c.key("attention.value_expert_count"), c.ValueExperts, maxExperts)
	c.require(c.ValueExpertsUsed > 0 && c.ValueExpertsUsed <= c.ValueExperts, "%s is %d, but must be 1 to %d", c.key("attention.value_expert_used_count"), c.ValueExpertsUsed, c.ValueExperts)
	c.require(c.Gating < GatingSoftMaxChosen, "%s is %d, which value experts do not support", c.key("expert_gating_func"), c.Gating)
}

func (c *configCheck) xielu() {
	c.require(!c.hasKey("xielu.beta") || len(c.XIELU) == c.Layers, "xIELU has parameters for %d layers, but there are %d", len(c.XIELU), c.Layers)
	for _, p := range c.XIELU {
		if !finite(p.AlphaN) || !finite(p.AlphaP) || !finite(p.Beta) || !finite(p.Eps) {
			c.require(false, "xIELU has non-finite parameters %v", p)
			return
		}
	}
}

// lists checks what is listed for each layer.
func (c *configCheck) lists() {
	before := len(c.faults)
	for _, list := range []struct {
		name   string
		length int
	}{
		{"attention.head_count", entries(c.HeadsAt)}, {"attention.head_count_kv", entries(c.KVHeadsAt)}, {"feed_forward_length", entries(c.FFs)}, {"expert_feed_forward_length", entries(c.ExpertFFs)},
		{"attention.sliding_window_pattern", entries(c.LocalLayers)}, {"attention.rope_pattern", entries(c.RoPELayers)}, {recurrentLayers, entries(c.Recurrent)}, {indexerTypes, entries(c.OwnIndexers)}, {"attn_v.weight", entries(c.ValuesOfKeys)},
		{"swiglu_clamp_exp", entries(c.ExpertClamps)}, {"swiglu_clamp_shexp", entries(c.Clamps)},
	} {
		c.require(list.length == none || list.length == c.Layers, "%s.%s has %d values for %d layers", c.Arch, list.name, list.length, c.Layers)
	}
	const most = 1 << 16
	if c.IndexBlock > 0 && c.IndexKeys > 0 {
		c.require(c.IndexLocal >= 1 && c.IndexLocal < c.IndexKeys, "%s is %d, and %s is %d; a query must see its own block and choose others", c.key("attention.indexer.local_blocks"), c.IndexLocal, c.key("attention.indexer.top_k"), c.IndexKeys)
	}
	c.require(c.HashLayers >= 0 && c.HashLayers <= c.Layers, "%s is %d, but there are %d layers", c.key("hash_layer_count"), c.HashLayers, c.Layers)
	c.require(c.Ratios == nil || len(c.Ratios) >= c.Layers, "%s has %d values for %d layers", c.key("attention.compress_ratios"), len(c.Ratios), c.Layers)
	for _, ratio := range c.Ratios {
		c.require(ratio == 0 || ratio > 1 && ratio <= most, "%s: keys of %d tokens are unsupported", c.key("attention.compress_ratios"), ratio)
	}
	if len(c.faults) > before {
		return
	}
	for i := range c.Layers {
		heads, kv, width := at(c.HeadsAt, i, c.Heads), at(c.KVHeadsAt, i, c.KVHeads), at(c.FFs, i, c.FF)
		ok := heads >= 0 && heads <= c.Heads && kv >= 0 && kv <= c.KVHeads && width >= 0 && width <= c.FF // parts may demand more
		c.require(ok, "layer %d cannot have %d heads, %d KV heads and a feed-forward width of %d", i, heads, kv, width)
	}
	for i, width := range c.ExpertFFs {
		c.require(c.isDense(i) || width > 0 && width <= c.ExpertFF, "layer %d cannot have experts of width %d", i, width)
	}
}

// none is the length of an absent list; an empty one has length 0.
const none = -1

func entries[T any](list []T) int {
	if list == nil {
		return none
	}
	return len(list)
}
