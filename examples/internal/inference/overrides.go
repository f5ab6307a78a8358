package inference

import (
	"fmt"

	"github.com/goggml/ggml/llm/arch"
)

// Overrides are flags that override a model's hyper-parameters, for kong. An adapter needs the values that it
// was trained with, so all programs use the same names.
type Overrides struct {
	NormRMSEps *float32 `name:"norm-rms-eps" setting:"*.attention.layer_norm_rms_epsilon" range:"[0,)" placeholder:"X" run:"" help:"Added to the mean square in RMS norms; by default the model's." group:"Model"`
	FreqBase   *float32 `name:"rope-freq-base" setting:"*.rope.freq_base" range:"(0,)" placeholder:"X" run:"" help:"Base of RoPE's frequencies; by default the model's. Use an adapter with the base that it was trained with." group:"Model"`
	FreqScale  *float32 `name:"rope-freq-scale" setting:"*.rope.scaling.*" range:"(0,1000]" placeholder:"X" run:"" help:"Factor of RoPE's frequencies; by default the model's." group:"Model"`
}

// Override changes what a model's file says, see [model.LoadOptions].
func (o *Overrides) Override(c *arch.Config) {
	if o.NormRMSEps != nil {
		c.RMSEps = *o.NormRMSEps
	}
	if o.FreqBase != nil {
		c.RoPE.FreqBase = *o.FreqBase
	}
	if o.FreqScale != nil {
		c.RoPE.FreqScale = *o.FreqScale
	}
}

// Args returns the flags with which these programs run the model in the same way.
func (o *Overrides) Args() []string {
	return append(flagOf("--norm-rms-eps", o.NormRMSEps), o.ropeArgs()...)
}

// LlamaArgs returns the flags with which llama.cpp runs a model of an architecture in the same way. llama.cpp
// has no flag for the norms, but one that overrides any key of the file.
func (o *Overrides) LlamaArgs(arch string) (words []string) {
	if o.NormRMSEps != nil {
		words = []string{"--override-kv", fmt.Sprintf("%s.attention.layer_norm_rms_epsilon=float:%v", arch, *o.NormRMSEps)}
	}
	return append(words, o.ropeArgs()...)
}

// ropeArgs returns the flags of RoPE, which llama.cpp names alike.
func (o *Overrides) ropeArgs() []string {
	return append(flagOf("--rope-freq-base", o.FreqBase), flagOf("--rope-freq-scale", o.FreqScale)...)
}

// flagOf returns a flag with its value, or nil if it is not set.
func flagOf(name string, value *float32) []string {
	if value == nil {
		return nil
	}
	return []string{name, fmt.Sprint(*value)}
}
