package refmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	tokenEmbd  = "token_embd.weight"
	outputNorm = "output_norm.weight"
	output     = "output.weight"
	ropeFreqs  = "rope_freqs.weight"
	ropeShort  = "rope_factors_short.weight"
	ropeLong   = "rope_factors_long.weight"
)

// layerWeights are what a layer of an architecture consists of.
var layerWeights = map[string][]string{
	"llama":    llamaLayer,
	"qwen2":    llamaLayer,
	"mistral3": llamaLayer,
	"smollm3":  llamaLayer,
	"granite":  llamaLayer,
	"qwen3":    append([]string{"attn_q_norm", "attn_k_norm"}, llamaLayer...),
	"olmo2": {"attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output", "post_attention_norm",
		"ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm"},
	"gemma3": append([]string{"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}, llamaLayer...),
	"phi3":   {"attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down"},
}

var llamaLayer = []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}

// Architectures lists those that there are.
func Architectures() []string { return slices.Sorted(maps.Keys(layerWeights)) }

// Shapes returns the names and shapes of the weights that a model with an
// untied output must have.
func Shapes(p Params) map[string][4]int64 {
	setDefault(&p.Arch, "llama")
	setDefault(&p.HeadDim, p.Embd/max(p.Heads, 1))
	shapes := map[string][4]int64{
		tokenEmbd:  shape(p.Embd, p.Vocab),
		outputNorm: shape(p.Embd, 1),
		output:     shape(p.Embd, p.Vocab),
	}
	for l := range p.Layers {
		for _, part := range layerWeights[p.Arch] {
			shapes[fmt.Sprintf("blk.%d.%s.weight", l, part)] = p.shapeOf(part)
		}
	}
	return shapes
}

func shape(in, out int) [4]int64 { return [4]int64{int64(in), int64(out), 1, 1} }

// shapeOf is that of a weight of a layer.
func (p Params) shapeOf(part string) [4]int64 {
	queries, keys, up := p.HeadDim*p.Heads, p.HeadDim*p.KVHeads, p.FF
	if p.Arch == "phi3" { // with the gate
		up *= 2
	}
	switch part {
	case "attn_q":
		return shape(p.Embd, queries)
	case "attn_k", "attn_v":
		return shape(p.Embd, keys)
	case "attn_qkv":
		return shape(p.Embd, queries+2*keys)
	case "attn_output":
		return shape(queries, p.Embd)
	case "ffn_gate":
		return shape(p.Embd, p.FF)
	case "ffn_up":
		return shape(p.Embd, up)
	case "ffn_down":
		return shape(p.FF, p.Embd)
	case "attn_q_norm", "attn_k_norm":
		switch {
		case p.Arch != "olmo2":
			return shape(p.HeadDim, 1)
		case part == "attn_q_norm":
			return shape(queries, 1)
		}
		return shape(keys, 1)
	}
	return shape(p.Embd, 1) // norms
}

// OptionalShapes returns the names and shapes of the weights that a model can have
// besides.
func OptionalShapes(p Params) map[string][4]int64 {
	shapes := map[string][4]int64{}
	for name, ne := range Shapes(p) {
		if ne[1] == 1 || name == tokenEmbd {
			continue
		}
		base := strings.TrimSuffix(name, ".weight")
		shapes[base+".bias"] = shape(int(ne[1]), 1)
		shapes[base+".scale"] = shape(1, 1)
	}
	setDefault(&p.HeadDim, p.Embd/max(p.Heads, 1))
	setDefault(&p.RoPE.Dims, p.HeadDim)
	for _, name := range []string{ropeFreqs, ropeShort, ropeLong} {
		shapes[name] = shape(p.RoPE.Dims/2, 1)
	}
	return shapes
}

func checkWeights(p Params, weights map[string]Tensor) error {
	required := Shapes(p)
	shapes := OptionalShapes(p)
	maps.Copy(shapes, required)
	delete(required, output)
	var faults []string
	for name := range required {
		if _, ok := weights[name]; !ok {
			faults = append(faults, name+" is missing")
		}
	}
	for name, w := range weights {
		want, ok := shapes[name]
		switch {
		case !ok:
			faults = append(faults, name+" is unknown")
		case w.Ne != want:
			faults = append(faults, fmt.Sprintf("%s has shape %v, want %v", name, w.Ne, want))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return fmt.Errorf("refmodel: weights: %s", strings.Join(faults, "; "))
}
