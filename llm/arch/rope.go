package arch

import (
	"math"
	"reflect"

	"github.com/goggml/ggml"
)

// llama.cpp's defaults of YaRN (arXiv 2309.00071) for architectures without keys for it.
const yarnExtFactor, yarnBetaFast, yarnBetaSlow = 1, 32, 1

// yarnBetas are between which YaRN goes over, where files can say it.
var yarnBetas = []key{
	factor("rope.scaling.yarn_beta_fast", func(c *Config) *float32 { return &c.RoPE.BetaFast }, yarnBetaFast, false),
	factor("rope.scaling.yarn_beta_slow", func(c *Config) *float32 { return &c.RoPE.BetaSlow }, yarnBetaSlow, false),
}

// readRoPE reads how rotary position embedding is scaled beyond the trained context, with
// llama.cpp's meaning and defaults of the keys.
func (m *metadata) readRoPE(c *Config, s spec) {
	prefix := m.arch + ".rope.scaling."
	r := &c.RoPE
	r.Sections, r.FreqScale = m.sections(s), 1
	r.Mode = c.ropeMode()
	r.TrainedCtx = m.size("rope.scaling.original_context_length", c.Context, true)
	r.AttnFactor = value(m, prefix+"attn_factor", float32(1), true)
	if r.BetaFast == 0 { // no key of the architecture
		r.BetaFast, r.BetaSlow = yarnBetaFast, yarnBetaSlow
	}
	factor := value(m, prefix+"factor", value(m, m.arch+".rope.scale_linear", float32(0), true), true)
	switch scaling := value(m, prefix+"type", "linear", true); scaling {
	case "none": // stock llama.cpp forgets local layers
		c.LocalFactor, factor = factor, 0
	case "linear", "longrope":
	case "yarn":
		r.ExtFactor = yarnExtFactor
	default:
		m.fault("RoPE scaling %q is unsupported; supported: linear, longrope, none, yarn", scaling)
	}
	if factor != 0 {
		r.FreqScale = 1 / factor
	}
}

const sectionsKey = "rope.dimension_sections"

// sections returns the number of pairs that rotate by each axis of positions; zeros if the file has
// none.
func (m *metadata) sections(s spec) (sections [4]int) {
	name := m.arch + "." + sectionsKey
	list, ok := m.list(name)
	if !ok || s.sections == ggml.RoPENorm {
		return sections
	}
	if list.Len() > len(sections) {
		m.fault("%s has %d values; the limit is 4", name, list.Len())
		return sections
	}
	for i := range list.Len() {
		x := list.Index(i)
		if !x.CanInt() && !x.CanUint() {
			m.fault("%s is not a list of whole numbers", name)
			return sections
		}
		sections[i] = int(x.Convert(reflect.TypeFor[int64]()).Int())
	}
	return sections
}

// sectionsKeys is the key of sections, if there are some.
func (c Config) sectionsKeys() []keyValue {
	if c.RoPE.Sections == [4]int{} {
		return nil
	}
	var list []int32
	for _, n := range c.RoPE.Sections {
		list = append(list, int32(n))
	}
	return []keyValue{{c.Arch + "." + sectionsKey, list}}
}

// scalingKeys returns the keys of a RoPE that is scaled beyond the context of its training.
func (c Config) scalingKeys() []keyValue {
	r, prefix := c.RoPE, c.Arch+".rope.scaling."
	kind, factor := "linear", 1/r.FreqScale
	switch {
	case c.LocalFactor != 0:
		kind, factor = "none", c.LocalFactor
	case r.ExtFactor != 0:
		kind = "yarn"
	case r.FreqScale == 1 && r.AttnFactor == 1 && r.TrainedCtx == c.Context:
		return nil
	}
	return []keyValue{
		{prefix + "type", kind},
		{prefix + "factor", factor},
		{prefix + "original_context_length", uint32(r.TrainedCtx)},
		{prefix + "attn_factor", r.AttnFactor},
	}
}

// yarnMagnitude returns the factor of rotated vectors beside YaRN's own 1 + 0.1·log(factor), which
// the op of RoPE applies: in llama.cpp it follows from a multiplier in the file.
func yarnMagnitude(r ggml.RoPE, logMul float32) float32 {
	if r.ExtFactor == 0 {
		return 1
	}
	grown := float64(1 / r.FreqScale)
	magnitude := func(multiplier float64) float64 {
		if grown <= 1 {
			return 1
		}
		return 0.1*multiplier*math.Log(grown) + 1
	}
	scale := magnitude(1)
	if logMul != 0 {
		scale /= magnitude(float64(logMul))
	}
	return float32(scale / (1 + 0.1*math.Log(grown)))
}
