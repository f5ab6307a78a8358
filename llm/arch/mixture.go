package arch

import (
	"cmp"
	"slices"
)

// mixture is the part of an architecture's row that describes its experts; keys of the file give the rest.
type mixture struct {
	router     Router // with the defaults for absent keys
	reads      expertKeys
	sharedGate bool
	biases     Presence // of experts
	// scales: the experts' matrices have scales; sharedScales: the shared network's have. Stock
	// llama.cpp ignores scales in models that define none.
	scales, sharedScales bool
	// shared returns the width of the shared network; nil: the key's, or the width of all shared
	// experts.
	shared func(c *Config) int
	// See [Experts]; a nil limit means none.
	sumScale   float32
	limit      func(c *Config) float32
	oai        bool
	unsuffixed bool   // the shared network's weights are named as any network's
	module     string // of the shared network in transformers
}

// expertsOf returns the experts of layer i; ok is false if it has one feed-forward network.
func (s spec) expertsOf(c Config, i int) (e Experts, ok bool) {
	if s.mixture == nil || c.isDense(i) {
		return e, false
	}
	shared := cmp.Or(c.SharedFF, c.SharedExperts*c.ExpertFF)
	if s.mixture.shared != nil {
		shared = s.mixture.shared(&c)
	}
	e = Experts{
		FeedForward: FeedForward{Width: cmp.Or(at(c.ExpertFFs, i, c.ExpertFF), c.FF), Act: s.act, Ungated: s.ungated, FusedGateUp: c.FusedExperts, Biases: s.mixture.biases, Scales: s.mixture.scales, OAI: s.mixture.oai},
		Router:      s.mixture.router, SharedGate: s.mixture.sharedGate, SumScale: s.mixture.sumScale,
		Shared: FeedForward{Width: shared, Act: s.act, Ungated: s.ungated, Suffix: "_shexp", Module: s.mixture.module, Scales: s.mixture.sharedScales},
	}
	if s.mixture.limit != nil {
		e.Limit = s.mixture.limit(&c)
	}
	if s.mixture.unsuffixed {
		e.Shared.Suffix = ""
	}
	r := &e.Router
	r.Experts, r.Used = c.Experts, c.ExpertsUsed
	r.Gating, r.Normalized, r.Scale, r.Groups, r.GroupsUsed = c.Gating, c.NormalizedExperts, c.ExpertScale, c.ExpertGroups, c.ExpertGroupsUsed
	return e, true
}

// isDense reports whether layer i has no experts.
func (c *Config) isDense(i int) bool {
	return c.Experts == 0 || i < c.DenseLayers || c.ExpertStep > 1 && (i+1)%c.ExpertStep != 0
}

// sharedOrExpert returns the key's width, or else an expert's.
func sharedOrExpert(c *Config) int { return cmp.Or(c.SharedFF, c.ExpertFF) }

// sharedOrExperts returns the key's width, or else the width of all shared experts. Without a key for their number there
// is one.
func sharedOrExperts(c *Config) int { return cmp.Or(c.SharedFF, max(c.SharedExperts, 1)*c.ExpertFF) }

// expertKeys are the keys that files of an architecture have beside the numbers of experts. A model
// ignores the others, as stock llama.cpp does.
type expertKeys int

const (
	readsWidth  expertKeys = 1 << iota // of experts; otherwise the feed-forward networks'
	readsWidths                        // it may be listed for each layer
	readsSharedWidth
	readsSharedCount
	readsDense // the first layers, without experts
	readsStep
	readsGating
	readsNormalized
	readsScale
)

// keys returns the keys of mixtures, which a file without experts lacks.
func (x *mixture) keys() []key {
	if x == nil {
		return nil
	}
	none := always(0)
	list := []key{
		optional("expert_used_count", func(c *Config) *int { return &c.ExpertsUsed }, none),
		optional("expert_group_count", func(c *Config) *int { return &c.ExpertGroups }, none),
		optional("expert_group_used_count", func(c *Config) *int { return &c.ExpertGroupsUsed }, none),
	}
	for _, k := range []struct {
		reads expertKeys
		key
	}{
		{readsWidth, optional("expert_feed_forward_length", func(c *Config) *int { return &c.ExpertFF }, none)},
		{readsWidths, expertWidths},
		{readsSharedCount, optional("expert_shared_count", func(c *Config) *int { return &c.SharedExperts }, none)},
		{readsSharedWidth, optional("expert_shared_feed_forward_length", func(c *Config) *int { return &c.SharedFF }, none)},
		{readsDense, optional("leading_dense_block_count", func(c *Config) *int { return &c.DenseLayers }, none)},
		{readsStep, optional("interleave_moe_layer_step", func(c *Config) *int { return &c.ExpertStep }, none)},
		{readsScale, factor("expert_weights_scale", func(c *Config) *float32 { return &c.ExpertScale }, 0, false)},
	} {
		if x.reads&k.reads != 0 {
			list = append(list, k.key)
		}
	}
	list = append(list, x.gatingKey(), x.normalizedKey())
	for i, k := range list {
		list[i].read = func(m *metadata, name string, c *Config) {
			if c.Experts > 0 {
				k.read(m, name, c)
			}
		}
		list[i].write = func(c *Config) any {
			if c.Experts == 0 {
				return nil
			}
			return k.write(c)
		}
	}
	return append([]key{optional("expert_count", func(c *Config) *int { return &c.Experts }, none)}, list...)
}

// expertWidths is the width of experts, or a list with the width of each layer.
var expertWidths = key{
	name: "expert_feed_forward_length",
	read: func(m *metadata, name string, c *Config) {
		list, ok := m.list(m.arch + "." + name)
		if !ok {
			c.ExpertFF = m.size(name, 0, true)
			return
		}
		if widths := m.whole(m.arch+"."+name, list); len(widths) > 0 {
			c.ExpertFF, c.ExpertFFs = slices.Max(widths), differing(widths)
		}
	},
	write: func(c *Config) any {
		if c.ExpertFFs != nil {
			return numbers(c.ExpertFFs)
		}
		return uint32(c.ExpertFF)
	},
}

func (x *mixture) gatingKey() key {
	if x.reads&readsGating == 0 {
		return fixed(func(c *Config) { c.Gating = x.router.Gating })
	}
	return key{
		name: "expert_gating_func",
		read: func(m *metadata, name string, c *Config) {
			c.Gating = cmp.Or(Gating(m.size(name, 0, true)), x.router.Gating)
		},
		write: func(c *Config) any { return uint32(c.Gating) },
	}
}

func (x *mixture) normalizedKey() key {
	if x.reads&readsNormalized == 0 {
		return fixed(func(c *Config) { c.NormalizedExperts = x.router.Normalized })
	}
	return key{
		name: "expert_weights_norm",
		read: func(m *metadata, name string, c *Config) {
			c.NormalizedExperts = value(m, m.arch+"."+name, x.router.Normalized, true)
		},
		write: func(c *Config) any { return c.NormalizedExperts },
	}
}

// fixed sets hyper-parameters that all models of a kind share and files have no key for.
func fixed(set func(c *Config)) key {
	return key{read: func(_ *metadata, _ string, c *Config) { set(c) }, write: func(*Config) any { return nil }}
}

// unusedNetwork is a feed-forward network that files of mixtures may have beside the experts. Stock
// llama.cpp loads it and does not use it.
func unusedNetwork(c *Config) []Weight {
	var list []Weight
	for _, kind := range []string{"ffn_gate", "ffn_up", "ffn_down"} {
		shape := []int{c.Embd, c.FF}
		if kind == "ffn_down" {
			slices.Reverse(shape)
		}
		list = append(list, unused(kind+".weight", shape...), unused(kind+".scale", 1), unused(kind+".input_scale", 1))
	}
	return list
}

// unusedExperts returns the weights of a mixture that stock llama.cpp loads and does not use.
func unusedExperts(c *Config) []Weight {
	router := unused("ffn_gate_inp.weight", c.Embd, c.Experts)
	router.KeepType = true
	list := []Weight{router}
	for _, kind := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"} {
		shape := []int{c.Embd, c.FF, c.Experts}
		if kind == "ffn_down_exps" {
			shape[0], shape[1] = shape[1], shape[0]
		}
		list = append(list, unused(kind+".weight", shape...), unused(kind+".scale", c.Experts), unused(kind+".input_scale", c.Experts))
	}
	return list
}
