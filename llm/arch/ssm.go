package arch

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// ScanSizes are the sizes of a selective scan after a short convolution, see [nn.Scan].
type ScanSizes struct {
	Inner      int // width of all heads
	Heads      int // of x
	Groups     int // of B and C, which heads share
	StateSize  int // of each element of a head
	ConvLength int
}

// scan returns the selective scan [inner, n] of x [inner, n], B and C [states·groups, n] and dt [heads, n]. D has a number for each
// head, and so has A, or for each element of a head's state.
func (s ScanSizes) scan(p Place, t *nn.Tape, x, b, c, dt *nn.Value, perHead []int64, byElement bool) *nn.Value {
	heads, groups := int64(s.Heads), int64(s.Groups)
	a := Weight{Kind: "ssm_a", Shape: perHead, Role: Decay, Init: decays}
	if byElement {
		a.Shape, a.Init = []int64{int64(s.StateSize), heads}, s.countingDecays
	}
	o := nn.Scan{
		X: t.Heads(x, heads), DT: dt, A: p.Weight(a), B: t.Heads(b, groups), C: t.Heads(c, groups),
		D: p.Weight(Weight{Kind: "ssm_d", Shape: perHead, Role: Skip, Init: ones}), Rows: p.Rows, Packed: p.Packed,
	}
	return t.Flat(recur(p, t, 1, o, t.SelectiveScan, nn.SelectiveScanStep))
}

// recur computes a recurrence from the part's state of this number, or of whole sequences if there are no states.
func recur[In any](p Place, t *nn.Tape, number int, in In, whole func(In) *nn.Value, step *nn.Op[nn.Next[In], nn.Stepped]) *nn.Value {
	kept := p.State(number)
	if kept == nil {
		return whole(in)
	}
	s := kept.(*state.Recurrent)
	y := step.Build(t, nn.Next[In]{
		In: in, Slots: p.Pass.Slots,
		Stored:  func() (states, rows *ggml.Tensor) { return s.Stored(t, p.Pass) },
		Before:  func() *ggml.Tensor { return s.Before(t, p.Pass) },
		Written: func() *ggml.Tensor { return s.Written(t, p.Pass) },
	})
	if y.States != nil {
		s.Write(t, p.Pass, y.States)
	}
	return y.Y
}

// convolve is the activated convolution of x [m, n], with its bias.
func (s ScanSizes) convolve(p Place, t *nn.Tape, x *nn.Value, there Presence) *nn.Value {
	channels := x.T.Dim(0)
	mix := nn.Convolution{Kernel: p.kernel("ssm_conv1d", s.ConvLength, channels), Bias: p.bias("ssm_conv1d", channels, there), Step: 1, SiLU: true}
	return p.convolve(t, x, mix, 0)
}

// gated applies the output gate to a scan's result, silu(z)·y, for the tokens that are kept.
func gated(p Place, t *nn.Tape, z, y *nn.Value) *nn.Value {
	return t.GLU(ggml.SwiGLU, p.Kept(t, z), p.Kept(t, y))
}

// newStates makes the states of a scan and of its convolution, of a width.
func (s ScanSizes) newStates(o state.Options, convolved int) ([]state.State, error) {
	return recurrentStates(o, convolved, s.ConvLength, s.StateSize*s.Inner)
}

// recurrentSnapshots is the number of snapshots of a sequence's state. With fewer, none of the previous turn would be left
// after the tokens of an answer. Together they are as large as the keys and values of some thousand tokens.
const recurrentSnapshots = 8

// recurrentStates makes the state of a convolution of `length` taps over `convolved` channels, and the state of the heads,
// of a number of elements.
func recurrentStates(o state.Options, convolved, length, elements int) ([]state.State, error) {
	recent, err := state.NewRecent(o, convolved, length-1)
	if err != nil {
		return nil, err
	}
	heads, err := state.NewRecurrent(o, elements, recurrentSnapshots)
	return []state.State{recent, heads}, err
}

// MixingFLOPs counts what a token does with each element of the states: to decay, to add, to read.
func (s ScanSizes) MixingFLOPs(int) float64 { return 5 * float64(s.Inner*s.StateSize) }

// check demands sizes by the keys of files.
func (s ScanSizes) check(c Config, heads int) (faults []string) {
	faults = c.sizeFaults([]sizeBound{
		{"ssm.inner_size", s.Inner, maxWidth}, {"ssm.state_size", s.StateSize, 1 << 12}, {"ssm.time_step_rank", heads, 1 << 16},
		{"ssm.group_count", s.Groups, 1 << 12}, {"ssm.conv_kernel", s.ConvLength, math.MaxInt16},
	})
	if len(faults) > 0 {
		return faults
	}
	if s.Inner%s.Heads != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d elements cannot be divided into %d heads", c.key("ssm.inner_size"), s.Inner, s.Heads))
	}
	if s.Heads%s.Groups != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d heads cannot be divided into %d groups", c.key("ssm.group_count"), s.Heads, s.Groups))
	}
	if int64(s.Inner)+2*int64(s.Groups)*int64(s.StateSize) > maxWidth {
		faults = append(faults, fmt.Sprintf("%s: %d groups of %d elements are too many", c.key("ssm.group_count"), s.Groups, s.StateSize))
	}
	return faults
}

// A sizeBound is a size of a key, from 1 to the most.
type sizeBound struct {
	name        string
	value, most int
}

// sizeFaults lists the sizes that are out of bounds.
func (c *Config) sizeFaults(bounds []sizeBound) (faults []string) {
	for _, b := range bounds {
		if b.value <= 0 || b.value > b.most {
			faults = append(faults, fmt.Sprintf("%s is %d", c.key(b.name), b.value))
		}
	}
	return faults
}

// New models begin with the values that the models' authors use.

// countingDecays are 1, 2 and so on for the elements of a state, negative.
func (s ScanSizes) countingDecays(_ *rand.Rand, values []float32) {
	for i := range values {
		values[i] = -float32(1 + i%s.StateSize)
	}
}

// stepBiases are initialised so that softplus(bias), the step, is between 0.001 and 0.1.
func stepBiases(rng *rand.Rand, values []float32) {
	for i := range values {
		step := 0.001 * math.Pow(100, rng.Float64())
		values[i] = float32(math.Log(math.Expm1(step)))
	}
}

func ones(_ *rand.Rand, values []float32) {
	for i := range values {
		values[i] = 1
	}
}

// scanKeys are the keys of models with a selective scan.
var scanKeys = []key{
	count("ssm.conv_kernel", func(c *Config) *int { return &c.ConvLength }),
	count("ssm.inner_size", func(c *Config) *int { return &c.Inner }),
	count("ssm.state_size", func(c *Config) *int { return &c.StateSize }),
	count("ssm.time_step_rank", func(c *Config) *int { return &c.StateHeads }),
}

// scanGroups is the key of models that have several.
var scanGroups = count("ssm.group_count", func(c *Config) *int { return &c.StateKHeads })

// scanTensors are the weights whose names end with their kind.
var scanTensors = []Kind{"ssm_a", "ssm_d"}
