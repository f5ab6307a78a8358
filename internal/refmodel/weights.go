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
)

// layerWeights are what a layer consists of.
var layerWeights = []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}

// Shapes returns the names and shapes of the weights that a model with an
// untied output must have.
func Shapes(p Params) map[string][4]int64 {
	setDefault(&p.HeadDim, p.Embd/max(p.Heads, 1))
	shapes := map[string][4]int64{
		tokenEmbd:  shape(p.Embd, p.Vocab),
		outputNorm: shape(p.Embd, 1),
		output:     shape(p.Embd, p.Vocab),
	}
	for l := range p.Layers {
		for _, part := range layerWeights {
			shapes[fmt.Sprintf("blk.%d.%s.weight", l, part)] = p.shapeOf(part)
		}
	}
	return shapes
}

func shape(in, out int) [4]int64 { return [4]int64{int64(in), int64(out), 1, 1} }

// shapeOf is that of a weight of a layer.
func (p Params) shapeOf(part string) [4]int64 {
	queries, keys := p.HeadDim*p.Heads, p.HeadDim*p.KVHeads
	switch part {
	case "attn_q":
		return shape(p.Embd, queries)
	case "attn_k", "attn_v":
		return shape(p.Embd, keys)
	case "attn_output":
		return shape(queries, p.Embd)
	case "ffn_gate", "ffn_up":
		return shape(p.Embd, p.FF)
	case "ffn_down":
		return shape(p.FF, p.Embd)
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
	shapes[ropeFreqs] = shape(p.RoPE.Dims/2, 1)
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
