package fuzz

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goggml/ggml"
)

// A variation is a call that an op accepts, with one operand of another type or layout, or with all operands of
// another type.
type variation struct {
	op      string
	operand int       // negative for all operands
	typ     ggml.Type // unless there is a layout
	layout  layout    // contiguous if the type varies
	flat    uint64    // index of a call with dimensions of size 1; 0 for the best call without
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
	refused outcome = "refused" // by ggml's assertion while the graph is built, or because the CPU does not support it
	barred  outcome = "barred"  // by an assertion of ggml while the graph is built, or because the CPU says it cannot
	stops   outcome = "stops"   // differs from the result with plain operands
	wrong   outcome = "wrong"   // writes or reads outside of its memory
	spoils  outcome = "spoils"  // ends the process
	dies    outcome = "dies"    // correct, but the values of the operand have no effect
	idle    outcome = "idle"    // nothing to compare with
	unknown outcome = "unknown" // there is nothing to compare with
)

// sweepWidth is the row length of operands, if it is free: a multiple of all block sizes.
const sweepWidth = 256

// flatCalls is the number of calls that try strides in dimensions of size 1.
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

// Ops that a sweep cannot judge.
var notSwept = map[string]string{
	"Custom": "takes anything", "CustomInPlace": "takes anything", "MapCustom": "takes anything", "MapCustomInPlace": "takes anything",
	"NewTensorLike": "has no values", "NewTensorOf": "has no values", "View": "its strides are in bytes", "AliasOf": "as View",
}

// list returns all variations of all ops.
func (s *sweeper) list() []variation {
	var list []variation
	for _, op := range opNames {
		if notSwept[op] == "" && Computes(op) {
			list = append(list, s.variations(op)...)
		}
	}
	return list
}

// A verdict is the outcome of a variation with the checks in Go and, if they refuse it, without them.
type verdict struct {
	variation    variation
	checked, raw outcome
	detail       string
}

// fault describes an error of the checks, if any.
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
