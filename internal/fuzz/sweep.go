package fuzz

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goggml/ggml"
)

// A variation is a call that an op takes, with one operand of another type or
// layout, or with all of another type.
type variation struct {
	op      string
	operand int       // all of them when negative
	typ     ggml.Type // when there is no layout
	layout  layout    // contiguous for another type
	flat    uint64    // which of the calls with dimensions of size 1; 0 for the best call without
}

func (v variation) String() string {
	what := fmt.Sprintf("operand %d", v.operand)
	if v.operand < 0 {
		what = "all operands"
	}
	if v.flat > 0 {
		what += fmt.Sprintf(" of flat call %d", v.flat)
	}
	if v.layout != contiguous {
		return fmt.Sprintf("%s: %s %v", v.op, what, v.layout)
	}
	return fmt.Sprintf("%s: %s of %v", v.op, what, v.typ)
}

func (l layout) String() string {
	return []string{"contiguous", "spaced", "gapped", "swapped", "transposed", "odd"}[l]
}

// An outcome is the result of a variation.
type outcome string

const (
	right   outcome = "right"
	refused outcome = "refused" // by the check in Go
	barred  outcome = "barred"  // by an assertion of ggml while the graph is built, or because the CPU says it cannot
	stops   outcome = "stops"   // an assertion inside the compute
	wrong   outcome = "wrong"   // differs from the result with plain operands
	spoils  outcome = "spoils"  // memory outside, or it reads there
	dies    outcome = "dies"    // the process
	idle    outcome = "idle"    // right, but the values of the operand make no difference
	unknown outcome = "unknown" // there is nothing to compare with
)

// Operands of a sweep are of this many elements in a row, where they are free:
// a multiple of all block sizes.
const sweepWidth = 256

// flatCalls is how many calls try strides in dimensions of size 1.
const flatCalls = 6

// sweeper runs variations.
type sweeper struct {
	machine *Machine
	bases   map[string]*trial // by op and flat
}

func newSweeper() (*sweeper, error) {
	m, err := NewMachine()
	return &sweeper{machine: m, bases: map[string]*trial{}}, err
}

// variations lists the variations of an op.
func (s *sweeper) variations(op string) []variation {
	tensors := operands(s.base(op, 0).args)
	var list []variation
	given := 0
	for i, a := range tensors {
		t := tensorOf(a)
		if t == nil {
			continue
		}
		given++
		for _, typ := range ggml.Types() {
			if typ != t.Type() && t.Dim(0)%typ.BlockSize() == 0 {
				list = append(list, variation{op: op, operand: i, typ: typ})
			}
		}
		for l := spaced; l < layouts; l++ {
			list = append(list, variation{op: op, operand: i, layout: l})
		}
		for flat := range uint64(flatCalls) {
			list = append(list, variation{op: op, operand: i, layout: odd, flat: flat + 1})
		}
	}
	if given > 1 {
		for _, typ := range ggml.Types() {
			if !slices.ContainsFunc(tensors, func(a reflect.Value) bool {
				t := tensorOf(a)
				return t != nil && t.Dim(0)%typ.BlockSize() != 0
			}) {
				list = append(list, variation{op: op, operand: -1, typ: typ})
			}
		}
	}
	return list
}

// Ops that a sweep has nothing to say about.
var notSwept = map[string]string{
	"Custom": "takes anything", "CustomInPlace": "takes anything", "MapCustom": "takes anything", "MapCustomInPlace": "takes anything",
	"NewTensorLike": "has no values", "NewTensorOf": "has no values", "View": "its strides are in bytes", "AliasOf": "as View",
}

// list has all variations of all ops.
func (s *sweeper) list() []variation {
	var list []variation
	for _, op := range opNames {
		if notSwept[op] == "" {
			list = append(list, s.variations(op)...)
		}
	}
	return list
}

// A verdict is the outcome of a variation with the checks and, if they refuse it, without them.
type verdict struct {
	variation    variation
	checked, raw outcome
	detail       string
}

// fault describes what is wrong with the checks.
func (v verdict) fault() string {
	switch v.checked {
	case wrong, spoils, stops, dies:
		return fmt.Sprintf("%v is taken, but it %s: %s", v.variation, v.checked, v.detail)
	case refused:
		if (v.raw == right || v.raw == idle) && deliberate(v.variation) == nil {
			return fmt.Sprintf("%v is refused (%s), but ggml computes it: %s", v.variation, v.detail, v.raw)
		}
	}
	return ""
}
