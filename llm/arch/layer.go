package arch

import (
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A Layer is residuals, one after the other: as a rule attention, and a feed-forward network.
type Layer []Residual

// A Residual adds to the residual stream x what a part makes of it:
// x + Scale · After(Part(Before(x))).
type Residual struct {
	Before, After string // names of the norms; "" for none
	Part          Part
	Scale         float32 // 0 and 1 are none
	AfterEps      float32 // of the norm behind, 0: as everywhere
	// Tokenwise says that the part makes of each token something that depends on no other,
	// so that some may be computed at a time.
	Tokenwise bool
}

// A Part is what a layer computes between its norms. It declares its weights by asking for
// them, and is a value that does not change: what it has of sizes it had when it was made.
type Part interface {
	// Forward returns what the part makes of x [n_embd, n], of the same shape. It may be of
	// the last tokens alone if it is [Place.IsLast] and the builder keeps these only.
	Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value
}

// A Stateful part is one of which sequences keep something from pass to pass. In its Forward
// [Place.State] is that, or nil in a graph of whole sequences.
type Stateful interface {
	Part
	// NewState makes what sequences keep.
	NewState(o state.Options) (state.State, error)
}

// NewStates makes what sequences keep of the residuals of each layer: nil where it is nothing. The
// options may depend on the block of its weights.
func (a *Architecture) NewStates(options func(block int) state.Options) ([][]state.State, error) {
	list := make([][]state.State, len(a.layers))
	for i, layer := range a.layers {
		list[i] = make([]state.State, len(layer))
		for j, r := range layer {
			part, ok := r.Part.(Stateful)
			if !ok {
				continue
			}
			var err error
			if list[i][j], err = part.NewState(options(a.blocks[i])); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// A Place is where in a graph something is built: in a layer, or outside of them.
type Place struct {
	*Builder
	Layer    int // -1 outside
	block    int // of the file, that has the weights of the layer; -1 outside
	residual int
	embedded *nn.Value // what the first layer sees
	// Prefixes of the names of its weights in files, and of the paths of its modules.
	prefix, modules string
}

// State is what sequences keep of the part; nil in a graph of whole sequences.
func (p Place) State() state.State {
	if p.States == nil {
		return nil
	}
	return p.States[p.Layer][p.residual]
}

// IsLast reports whether it is in the last layer.
func (p Place) IsLast() bool { return p.Layer == len(p.layers)-1 }

func (b *Builder) outside() Place { return Place{Builder: b, Layer: -1, block: -1} }

// build adds the residual to x.
func (r Residual) build(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	if r.Tokenwise {
		return t.Chunked(x, p.Chunk, func(t *nn.Tape, x *nn.Value) *nn.Value { return r.add(p, t, x) })
	}
	return r.add(p, t, x)
}

func (r Residual) add(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := r.branch(p, t, x)
	return t.Add(lastOf(t, x, y), y)
}

// branch is what the residual adds to x.
func (r Residual) branch(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := r.Part.Forward(p, t, p.Norm(t, r.Before, x))
	return t.Scale(p.norm(t, r.After, y, r.AfterEps), r.Scale)
}

// lastOf is x, or as many of its last tokens as y has.
func lastOf(t *nn.Tape, x, y *nn.Value) *nn.Value {
	if kept := y.T.Dim(1); kept < x.T.Dim(1) {
		return t.Last(x, kept)
	}
	return x
}
