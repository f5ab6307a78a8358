package arch

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A beside holds values outside of the residual stream that layers read.
type beside struct {
	embedded        *nn.Value          // input of the first layer
	layerEmbeddings []*nn.Value        // the tokens' embeddings for each layer [size, n], see [LayerEmbedding]; nil: none
	shared          map[int]keyValues  // keys and values that other layers read
	chosen          map[int]*nn.Chosen // keys that indexers of layers have chosen
	relative        *ggml.Tensor       // the bias of the first layer, see [Relative]
	firstValues     *nn.Value          // of the first layer, see [TimeMix7]
	streams         []*nn.Value        // earlier residual streams, see [AttentionResidual]
}

// LayersBack is the distance to an earlier layer, 0 for none.
type LayersBack int

// GoString is equal for all distances: layers that differ only in it compute the same.
func (n LayersBack) GoString() string {
	if n == 0 {
		return "no layer"
	}
	return "an earlier layer"
}

// keyValues are the keys and values of a layer: [size, heads, n] in a graph of whole sequences, or a pass's view of the
// layer's cache.
type keyValues struct {
	k, v  *nn.Value
	cache *state.Written // nil in a graph of whole sequences
}

// attendTo is attention to the layer's own keys and values, or to another layer's.
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

// shareKV finds the layers whose keys and values others read. Reader and source must have the same heads and window.
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
				err = fmt.Errorf("layer %d reads the keys and values of layer %d, which has none with the same heads and window", i, from)
				return
			}
			shares[from] = true
		})
	}
	return shares, err
}

// makesKV reports whether a layer makes keys and values that the reader can use.
func makesKV(l Layer, reader Attention) (found bool) {
	parts(l, func(p Part) {
		if a, ok := p.(Attention); ok {
			found = a.SharedKV == 0 && a.KVHeads == reader.KVHeads && a.HeadSize == reader.HeadSize && a.window() == reader.window()
		}
	})
	return found
}

// A reader is a part that reads values of an earlier layer outside of the residual stream.
type reader interface{ reads() LayersBack }

func (a Attention) reads() LayersBack { return a.SharedKV }

func (l LatentAttention) reads() LayersBack { return l.Indexer.Shared }

// sharedBy reports whether a layer of the graph reads values of this layer.
func (b *Builder) sharedBy(layer int) (found bool) {
	for _, i := range b.Only {
		parts(b.layers[i], func(p Part) {
			r, ok := p.(reader)
			found = found || ok && r.reads() > 0 && i-int(r.reads()) == layer
		})
	}
	return found
}

// withoutValues returns the layers for which a file has a matrix of keys and none of values, so that the keys are the
// values; nil: none.
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
