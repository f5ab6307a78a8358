package nn

import (
	"errors"
	"fmt"
	"iter"

	"github.com/goggml/ggml"
)

// Inputs are the tensors that change between computations. Each is declared where it is used, by name,
// with the function that fills it.
type Inputs struct {
	c         *ggml.Context
	list      []input
	constants map[constant]*ggml.Tensor
}

// A constant is computed from inputs alone, once for all layers and chunks of a lowering.
type constant struct {
	lowering *Lowering
	key      any
}

type input struct {
	*ggml.Tensor
	name  string
	draw  func(f *Feed) any // a slice of the elements
	write func(values any) error
}

// NewInputs makes the inputs of a graph in a context.
func NewInputs(c *ggml.Context) *Inputs { return &Inputs{c: c} }

// A Feed has the values for inputs: the tokens of a pass, row by row.
type Feed struct {
	Rows      int // of equal length: sequences, or what samples are packed into
	Tokens    []int32
	Positions []int32   // of each token in its sequence or sample
	Pooled    []float32 // hidden states of texts, in a graph that begins with them
	Owners    []int     // the adapter of each token, in a graph of mixed adapters
	Ends      []int32   // the index of a token of each row, see [Tape.Ends]
	// Where rows hold several samples, or windows look both ways:
	Starts []int32 // the index in its row of the first token of each token's sample
	// In training:
	// Hidden are the indices [from, to) in its row that each token does not see of its sample: answers
	// between its prompt and its own. nil means none.
	Hidden  [][2]int32
	Targets []int32   // the token that follows each
	Weights []float32 // of each token in the loss
	Taught  []int32   // a teacher's most likely tokens for each
	Probs   []float32 // of them, and of all others together
	Noise   Noise
}

// Length returns the length of a row.
func (f *Feed) Length() int { return len(f.Tokens) / f.Rows }

// keyAt returns the index in its row of the key that token i sees at a position of its sample.
func (f *Feed) keyAt(i, position int) int32 {
	key := f.Starts[i] + int32(position)
	if f.Hidden != nil && key >= f.Hidden[i][0] {
		key += f.Hidden[i][1] - f.Hidden[i][0]
	}
	return key
}

const fewElements = 1 << 14

// Declare returns the input of a name, and makes it, with the function that fills it, if it is new.
func Declare[T ggml.Element](in *Inputs, name string, t ggml.Type, shape []int64, fill func(f *Feed, x []T)) *ggml.Tensor {
	for _, x := range in.list {
		if x.name == name {
			return x.Tensor
		}
	}
	x := in.c.NewTensor(t, shape...).SetName(name).SetInput()
	n := x.NumElements()
	var kept []T // small slices are kept: decoding leaves little garbage
	draw := func(f *Feed) any {
		values := kept
		if values == nil {
			values = make([]T, n)
		}
		if n <= fewElements {
			kept = values
		}
		clear(values)
		fill(f, values)
		return values
	}
	in.list = append(in.list, input{x, name, draw, func(values any) error { return ggml.Write(x, values.([]T)) }})
	return x
}

// constant gives the constant of a key, and makes it where the graph has none yet.
func (t *Tape) constant(key any, f func() *ggml.Tensor) *ggml.Tensor {
	of := constant{t.Lowering, key}
	if x := t.Inputs.constants[of]; x != nil {
		return x
	}
	if t.Inputs.constants == nil {
		t.Inputs.constants = map[constant]*ggml.Tensor{}
	}
	t.Inputs.constants[of] = f()
	return t.Inputs.constants[of]
}

// Fill writes the inputs. All of them: a graph reuses their memory. What it does not read has none.
func (in *Inputs) Fill(f *Feed) error {
	var err error
	for _, x := range in.list {
		if x.IsAllocated() {
			err = errors.Join(err, x.write(x.draw(f)))
		}
	}
	return err
}

// All iterates over the inputs, each with what makes the slice of elements that fills it.
func (in *Inputs) All() iter.Seq2[*ggml.Tensor, func(f *Feed) any] {
	return func(yield func(*ggml.Tensor, func(f *Feed) any) bool) {
		for _, x := range in.list {
			if !yield(x.Tensor, x.draw) {
				return
			}
		}
	}
}

// TokenIDs is the input of tokens [n].
func (t *Tape) TokenIDs(n int64) *ggml.Tensor {
	return Declare(t.Inputs, "tokens", ggml.I32, []int64{n}, func(f *Feed, x []int32) { copy(x, f.Tokens) })
}

// A PositionInput is the input of positions, I32, or of their negation, by which some kernels rotate back.
type PositionInput func(negated bool) *ggml.Tensor

// Positions returns the positions of n tokens [n].
func (t *Tape) Positions(n int64) PositionInput { return t.positions("positions", n, 1) }

// SectionPositions are Positions [4·n] for RoPE of sections: the first three of a text are the same,
// and the fourth 0.
func (t *Tape) SectionPositions(n int64) PositionInput {
	return t.positions("positions of sections", 4*n, 3)
}

// positions is an input of n numbers: the tokens' positions, repeated for each axis; the rest is 0.
func (t *Tape) positions(name string, n int64, axes int) PositionInput {
	return func(negated bool) *ggml.Tensor {
		name, sign := name, int32(1)
		if negated {
			name, sign = "negated "+name, -1
		}
		return Declare(t.Inputs, name, ggml.I32, []int64{n}, func(f *Feed, x []int32) {
			for i, p := range f.Positions {
				for axis := range axes {
					x[axis*len(f.Positions)+i] = sign * p
				}
			}
		})
	}
}

// firstVisible is the first key of its row that each query of rows [n, batch] sees.
func (t *Tape) firstVisible(w Window, n, batch int64) KeyOfQuery {
	return t.keyOfQuery(fmt.Sprintf("first visible of window %v", w), n, batch, func(f *Feed, i int) int32 {
		return f.keyAt(i, w.First(int(f.Positions[i])))
	})
}

// hidden are the keys [from, to) that each query of rows [n, batch] skips.
func (t *Tape) hidden(n, batch int64) (from, to KeyOfQuery) {
	bound := func(name string, which int) KeyOfQuery {
		return t.keyOfQuery(name, n, batch, func(f *Feed, i int) int32 {
			if f.Hidden == nil {
				return 0
			}
			return f.Hidden[i][which]
		})
	}
	return bound("hidden from", 0), bound("hidden up to", 1)
}

// lastVisible is the last key that each query of rows [n, batch] sees: the last of its sample, or of its window there.
func (t *Tape) lastVisible(w Window, n, batch int64) KeyOfQuery {
	return t.keyOfQuery(fmt.Sprintf("last visible of window %v", w), n, batch, func(f *Feed, i int) int32 {
		row := f.Starts[i/f.Length()*f.Length():][:f.Length()]
		last := i % f.Length()
		end := len(row) - 1
		if w.Symmetric && w.Size > 0 {
			end = min(end, last+w.Size/2)
		}
		for last < end && row[last+1] == row[last] {
			last++
		}
		return int32(last)
	})
}

// keyOfQuery is an input of integers, of each type that the kernels of layers ask for.
func (t *Tape) keyOfQuery(name string, n, batch int64, key func(f *Feed, i int) int32) KeyOfQuery {
	return func(typ ggml.Type) *ggml.Tensor {
		name, shape := fmt.Sprintf("%s, %v", name, typ), []int64{n, batch}
		if typ == ggml.I32 {
			return Declare(t.Inputs, name, typ, shape, func(f *Feed, x []int32) { fill(x, f, key) })
		}
		return Declare(t.Inputs, name, typ, shape, func(f *Feed, x []float32) { fill(x, f, key) })
	}
}

func fill[T int32 | float32](x []T, f *Feed, key func(f *Feed, i int) int32) {
	for i := range x {
		x[i] = T(key(f, i))
	}
}
