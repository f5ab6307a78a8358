package arch

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A Role is what a weight is there for.
type Role int

// The roles of weights.
const (
	Linear    Role = iota // a matrix of products [n_in, n_out], which LoRA can adapt
	Embedding             // a matrix whose rows are looked up; where it is tied, of products too
	Norm                  // the factors of a norm
	Bias                  // what is added to a product [n_out]
	Scale                 // the factor of a product [1], to which adapters and bias are added
	OutScale              // the factor of a product [1] with adapters and bias
	RoPEFreqs             // what frequencies of RoPE are divided by [dims/2]
	Unused                // a tensor of files that the text model does not compute with
)

// CanHave reports whether a weight of the role can be of a type: rows of a matrix are
// converted from any float or quantised type, and all else is F32.
func (r Role) CanHave(t ggml.Type) bool {
	switch r {
	case Unused:
		return true
	case Linear, Embedding:
		return t.CanDequantize()
	}
	return t == ggml.F32
}

// A Weight is a tensor that a model has.
type Weight struct {
	Name     string
	Shape    []int64
	Role     Role
	Optional bool // a file may lack it
	Residual bool // it makes what a layer adds to the residual stream
}

// An Inventory is what a model is made of, in the order of computation.
type Inventory struct {
	Weights []Weight
	// Groups are the matrices of products that see the same input.
	Groups [][]string
}

// Weights lists the tensors of the model in the order of computation; see [Config.Inventory].
func (c Config) Weights() []Weight { return c.Inventory().Weights }

var inventories = struct {
	sync.Mutex
	of map[Config]*Inventory
}{of: map[Config]*Inventory{}}

// Inventory lists what the model is made of. It is found by building the graph of one
// token from weights without memory, which note that they are asked for. Nobody may
// change the result. It is empty for a config that [Config.Validate] refuses.
func (c Config) Inventory() *Inventory {
	inv, _ := c.inventory()
	return inv
}

// inventory is Inventory with what is wrong with the config.
func (c Config) inventory() (*Inventory, error) {
	c.Name = ""
	inventories.Lock()
	defer inventories.Unlock()
	if inv := inventories.of[c]; inv != nil {
		return inv, nil
	}
	if err := c.check(); err != nil {
		return &Inventory{}, err
	}
	inv, err := c.takeInventory()
	if err != nil {
		return &Inventory{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	inventories.of[c] = inv
	return inv, nil
}

func (c Config) takeInventory() (*Inventory, error) {
	ctx := ggml.NewContext()
	defer ctx.Close()
	inv := &Inventory{}
	seen := map[string]*ggml.Tensor{}
	input := func(t ggml.Type, shape ...int64) *ggml.Tensor { return ctx.NewTensor(t, shape...) }
	b := &Builder{
		Config: c,
		Source: func(w Weight) *ggml.Tensor {
			x, known := seen[w.Name]
			if !known {
				inv.Weights = append(inv.Weights, w)
				if !w.Optional {
					x = input(ggml.F32, w.Shape...)
				}
				seen[w.Name] = x
			}
			return x
		},
		Products:  groupLister{inv},
		Attention: noAttention{},
		Tokens:    input(ggml.I32, 1),
		Positions: input(ggml.I32, 1),
		AttnTemp:  input(ggml.F32, 1, 1, 1),
	}
	t := &nn.Tape{C: ctx, Graph: ctx.NewGraph(), Lowering: nn.Stock()}
	b.Logits(t, b.Hidden(t, false))
	return inv, ctx.Err()
}

// groupLister notes which matrices are multiplied with the same input.
type groupLister struct{ inv *Inventory }

func (l groupLister) Linear(t *nn.Tape, x *nn.Value, matrices ...nn.Matrix) []*nn.Value {
	var names []string
	for _, m := range matrices {
		names = append(names, m.Name)
	}
	l.inv.Groups = append(l.inv.Groups, names)
	return nn.Linears{}.Linear(t, x, matrices...)
}

// noAttention has the shapes of attention.
type noAttention struct{}

func (noAttention) Attend(t *nn.Tape, q, _, _ *nn.Value, _ nn.AttentionOptions) *nn.Value {
	return nn.Input(t.C.Cont(q.T, q.T.Dim(0)*q.T.Dim(1), q.T.Dim(2)))
}

// Linears names the matrices of a layer that LoRA can adapt, such as "attn_q", in the
// order of computation.
func (c Config) Linears() []string {
	var list []string
	for _, w := range c.Weights() {
		if part, ok := strings.CutPrefix(w.Name, "blk.0."); ok && w.Role == Linear {
			list = append(list, strings.TrimSuffix(part, ".weight"))
		}
	}
	return list
}

// ScaleName is the factor that may belong to a matrix.
func ScaleName(weight string) string { return strings.TrimSuffix(weight, ".weight") + ".scale" }

// BiasName is the bias that may belong to a matrix.
func BiasName(weight string) string { return strings.TrimSuffix(weight, ".weight") + ".bias" }
