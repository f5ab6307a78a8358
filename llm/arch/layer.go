package arch

import (
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A Layer is a list of residuals: usually attention and a feed-forward network.
type Layer []Residual

// A Residual adds a part's result to the residual stream: Sum(x + Scale · After(Part(Before(x)))).
type Residual struct {
	Before, After Kind // names of the norms; "" for none
	Sum           Kind // name of the norm of the sum; "" for none
	Part          Part
	Scale         float32 // 0 and 1 mean none
	AfterEps      float32 // epsilon of the norm After; 0: the model's
	Replaces      bool    // the part's result replaces x and is not added
	Normalized    float32 // the result is added to Normalized · Before(x); 0: to x
	// Tokenwise says that the result for a token depends on no other token, so that chunks of tokens can be computed one
	// after the other.
	Tokenwise bool
}

// A Part is the part of a layer between its norms. It declares its weights as it uses them. It is an
// immutable value with fixed sizes.
type Part interface {
	// Forward returns the part's result for x [n_embd, n], of the same shape, or for the last
	// tokens only, see [Place.Kept].
	Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value
}

// What follows are interfaces that a part may have beside Forward.

// A Composite part consists of residuals, whose places are [Place.Part] by their numbers.
type Composite interface{ Residuals() []Residual }

// A Stateful part has states that sequences keep between passes. Its Forward gets them by number from
// [Place.State].
type Stateful interface {
	NewStates(o state.Options) ([]state.State, error)
}

// A Checked part reports faults of its sizes, by the names of the keys in files.
type Checked interface {
	Check(c Config) (faults []string)
}

// A Mixing part has operations between tokens, which a count of weights misses. MixingFLOPs returns their
// number for each token in the forward pass, averaged over a sample of a length.
type Mixing interface{ MixingFLOPs(length int) float64 }

// parts calls f for each part of the residuals, and for their nested parts.
func parts(residuals []Residual, f func(Part)) {
	for _, r := range residuals {
		f(r.Part)
		if c, ok := r.Part.(Composite); ok {
			parts(c.Residuals(), f)
		}
	}
}

// NewStates makes the states of each layer, a part of the tree for each of its residuals. The options may
// depend on the block that has the layer's weights.
func (a *Architecture) NewStates(options func(block int) state.Options) ([]*state.Tree, error) {
	list := make([]*state.Tree, len(a.layers))
	for i, layer := range a.layers {
		var err error
		if list[i], err = newStates(options(a.blocks[i]), layer); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newStates makes the states of residuals.
func newStates(o state.Options, residuals []Residual) (tree *state.Tree, err error) {
	tree = &state.Tree{Parts: make([]*state.Tree, len(residuals))}
	for i, r := range residuals {
		of := &state.Tree{}
		if c, ok := r.Part.(Composite); ok {
			if of, err = newStates(o, c.Residuals()); err != nil {
				return nil, err
			}
		}
		if s, ok := r.Part.(Stateful); ok {
			if of.Own, err = s.NewStates(o); err != nil {
				return nil, err
			}
		}
		tree.Parts[i] = of
	}
	return tree, nil
}

// oneState is the list of the only state of a part.
func oneState[S state.State](s S, err error) ([]state.State, error) { return []state.State{s}, err }

// A Place is the place in a graph where something is built: a layer, or outside of all layers.
type Place struct {
	*Builder
	Layer  int         // -1 outside
	block  int         // block of the file that holds the layer's weights; -1 outside
	states *state.Tree // of the layer, or of the part
	beside *beside     // nil outside
	// Prefixes of the names of its weights in files, and of the paths of its modules.
	prefix, modules string
}

// Part is the place of a part of the part, numbered as its states are.
func (p Place) Part(i int) Place {
	p.states = p.states.Part(i)
	return p
}

// State returns one of the part's own states, by its number; nil in a graph of whole sequences.
func (p Place) State(i int) state.State {
	if p.states == nil || i >= len(p.states.Own) {
		return nil
	}
	return p.states.Own[i]
}

// Kept returns the columns of x [m, n] that a part still computes after mixing all tokens: in the last
// layer, the tokens whose logits are needed.
func (p Place) Kept(t *nn.Tape, x *nn.Value) *nn.Value {
	if p.Layer < len(p.layers)-1 || p.Keep == 0 || p.Keep >= x.T.Dim(1) {
		return x
	}
	return t.Last(x, p.Keep)
}

func (b *Builder) outside() Place { return Place{Builder: b, Layer: -1, block: -1} }

// A stream is the residual stream x + y. The next residual adds and normalises by one op.
type stream struct{ x, y *nn.Value } // y: nil if x is all

// sum returns x + y.
func (s stream) sum(t *nn.Tape) *nn.Value {
	if s.y == nil {
		return s.x
	}
	return t.Add(s.x, s.y)
}

// normed returns x + y and its norm, which is the sum itself if the kind is "".
func (s stream) normed(p Place, t *nn.Tape, kind Kind) (sum, normed *nn.Value) {
	if s.y == nil || kind == "" {
		sum = s.sum(t)
		return sum, p.Norm(t, kind, sum)
	}
	return t.AddNorm(s.x, s.y, p.normNamed(kind, s.x.T.Dim(0)))
}

// build adds the residual to the stream.
func (r Residual) build(p Place, t *nn.Tape, s stream) stream {
	if !r.Tokenwise || p.Chunk == 0 || s.x.T.Dim(1) <= p.Chunk {
		return r.add(p, t, s)
	}
	return stream{x: t.Chunked(s.sum(t), p.Chunk, func(t *nn.Tape, x *nn.Value) *nn.Value { return r.add(p, t, stream{x: x}).sum(t) })}
}

func (r Residual) add(p Place, t *nn.Tape, s stream) stream {
	x, normal := s.normed(p, t, r.Before)
	y := r.made(p, t, normal)
	if r.Replaces {
		return stream{x: y}
	}
	if r.Normalized != 0 {
		x = t.Scale(normal, r.Normalized)
	}
	s = stream{lastOf(t, x, y), y}
	if r.Sum != "" {
		_, sum := s.normed(p, t, r.Sum)
		return stream{x: sum}
	}
	return s
}

// branch returns the residual's addition to x.
func (r Residual) branch(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	return r.made(p, t, p.Norm(t, r.Before, x))
}

// made returns the scaled result of the part for a normalised x.
func (r Residual) made(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := r.Part.Forward(p, t, x)
	return t.Scale(p.norm(t, r.After, y, r.AfterEps), r.Scale)
}

// lastOf returns as many of x's last tokens as y has.
func lastOf(t *nn.Tape, x, y *nn.Value) *nn.Value {
	if kept := y.T.Dim(1); kept < x.T.Dim(1) {
		return t.Last(x, kept)
	}
	return x
}
