package arch

import "github.com/goggml/ggml/internal/nn"

// Parallel is a list of residuals with the same input, whose results are summed (arXiv 2204.02311).
type Parallel []Residual

// Forward returns the sum of all branches.
func (s Parallel) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	var sum *nn.Value
	for i, r := range s {
		y := r.apart(p.Part(i), t, x)
		if sum != nil {
			y = t.Add(lastOf(t, sum, y), lastOf(t, y, sum))
		}
		sum = y
	}
	return sum
}

// Residuals returns the residuals that are added.
func (s Parallel) Residuals() []Residual { return s }

// apart returns a branch with its own copy of the gradient: a branch that is computed in chunks
// overwrites the gradient, which the branches share.
func (r Residual) apart(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	if !r.Tokenwise {
		return r.branch(p, t, x)
	}
	y := t.Chunked(x, p.Chunk, func(t *nn.Tape, x *nn.Value) *nn.Value { return r.branch(p, t, x) })
	return t.OwnGradient(y)
}

// sharedNorm lets attention and network see the same norm of x, and adds both.
func sharedNorm(_ *Config, _ int, attention, network Residual) Layer {
	norm := attention.Before
	attention.Before, network.Before = "", ""
	return Layer{{Before: norm, Part: Parallel{attention, network}}}
}

// ownNorms lets attention and network see norms of the same x, and adds both.
func ownNorms(_ *Config, _ int, attention, network Residual) Layer {
	return Layer{{Part: Parallel{attention, network}}}
}

// A Stack is a sequence of residuals that acts as one.
type Stack []Residual

// Forward returns the sum of all branches, each on the stream so far, or on the result alone of a residual that replaces it.
func (s Stack) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	var sum *nn.Value
	for i, r := range s {
		y := r.apart(p.Part(i), t, x)
		if x = lastOf(t, x, y); r.Replaces {
			x = y
		} else {
			x = t.Add(x, y)
		}
		if sum != nil {
			y = t.Add(lastOf(t, sum, y), y)
		}
		sum = y
	}
	return sum
}

// Residuals returns the residuals in their order.
func (s Stack) Residuals() []Residual { return s }
