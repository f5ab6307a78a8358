package arch

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A beside is what a graph has beside the residual stream, for layers to read.
type beside struct {
	embedded        *nn.Value         // what the first layer sees
	layerEmbeddings []*nn.Value       // of the tokens for each layer [size, n], see [LayerEmbedding]; nil for none
	shared          map[int]keyValues // of layers whose keys and values others read
}

// LayersBack is the distance to an earlier layer, 0 for none.
type LayersBack int

// GoString is the same for all distances: layers that differ in nothing else compute the same.
func (n LayersBack) GoString() string {
	if n == 0 {
		return "no layer"
	}
	return "an earlier layer"
}

// keyValues are the keys and values of a layer in a graph of whole sequences [size, heads, n], or those that a pass sees in
// the layer's cache.
type keyValues struct {
	k, v  *nn.Value
	cache *state.Written // nil in a graph of whole sequences
}

// attendTo is the attention to keys and values that the layer has made itself, or that it reads of another one.
func (a Attention) attendTo(p Place, t *nn.Tape, q, k, v *nn.Value, o nn.AttentionOptions) *nn.Value {
	of := keyValues{k: k, v: v}
	if a.SharedKV > 0 {
		of = p.beside.shared[p.Layer-int(a.SharedKV)]
	} else if kept := p.State(0); kept != nil {
		written := kept.(*state.KV).Write(t, p.Pass, k, v)
		of.cache = &written
	}
	if p.sharesKV[p.Layer] {
		p.beside.shared[p.Layer] = of.exposed(t)
	}
	if of.cache != nil {
		return of.cache.Attend(t, p.Pass, q, o)
	}
	if a.SharedKV > 0 {
		of.k, of.v = t.Reused(of.k), t.Reused(of.v)
	}
	return t.Attend(q, of.k, of.v, o)
}

// exposed are keys and values for other layers.
func (kv keyValues) exposed(t *nn.Tape) keyValues {
	return keyValues{t.Expose(kv.k), t.Expose(kv.v), kv.cache}
}

// shareKV finds the layers whose keys and values others read, which must have such heads and see as much.
func shareKV(layers []Layer) (shares map[int]bool, err error) {
	shares = map[int]bool{}
	for i, l := range layers {
		parts(l, func(p Part) {
			a, ok := p.(Attention)
			if !ok || a.SharedKV == 0 || err != nil {
				return
			}
			from := i - int(a.SharedKV)
			if a.SharedKV < 0 || from < 0 || !makesKV(layers[from], a) {
				err = fmt.Errorf("layer %d reads the keys and values of layer %d, which has none for such heads and such a window", i, from)
				return
			}
			shares[from] = true
		})
	}
	return shares, err
}

// makesKV reports whether a layer has keys and values that attention can read.
func makesKV(l Layer, reader Attention) (found bool) {
	parts(l, func(p Part) {
		if a, ok := p.(Attention); ok {
			found = a.SharedKV == 0 && a.KVHeads == reader.KVHeads && a.HeadSize == reader.HeadSize && a.window() == reader.window()
		}
	})
	return found
}

// sharedBy reports whether a layer is in the graph for those that read its keys and values.
func (b *Builder) sharedBy(layer int) (found bool) {
	for _, i := range b.Only {
		parts(b.layers[i], func(p Part) {
			a, ok := p.(Attention)
			found = found || ok && a.SharedKV > 0 && i-int(a.SharedKV) == layer
		})
	}
	return found
}

// withoutValues are the layers of which a file has keys and no values, where values may be those; nil: none.
func (m *metadata) withoutValues(c Config, s spec) []bool {
	if !s.valuesOfKeys || len(m.faults) > 0 {
		return nil
	}
	layers := make([]bool, c.Layers)
	for i := range layers {
		_, keys := m.g.Tensor(fmt.Sprintf("blk.%d.attn_k.weight", i))
		_, values := m.g.Tensor(fmt.Sprintf("blk.%d.attn_v.weight", i))
		layers[i] = keys && !values
	}
	if !slices.Contains(layers, true) {
		return nil
	}
	return layers
}
