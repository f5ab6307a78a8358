package optest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// UntestedTypes searches for types of operands that an op accepts and no case compares with its reference: it
// changes the type of one operand of a case, or of two. It returns such ops with the types of their operands
// and result, and the case. probes are additional ops to try; they need only Operands and Build. It is skipped
// with -short.
func UntestedTypes(t *testing.T, cases, probes []Case) map[string]string {
	need.Time(t, "half a minute")
	tested := map[string]bool{}
	for _, k := range cases {
		k.fill()
		for _, typ := range k.Types {
			d := k.draw(typ)
			for range k.Runs {
				p := newProgram(k.Operands(d), k.Build)
				list := p.signatures(t)
				for _, s := range list {
					tested[s] = true
				}
				assert.True(t, len(list) > 0 || p.onlyViews(), "%s of %v is not computed: %v %v", k.Name, typ, p.leaves.Err(), p.c.Err())
				p.close()
			}
		}
	}
	untested := map[string]string{}
	probe := func(k *Case, operands []Operand) {
		p := newProgram(operands, k.Build)
		defer p.close()
		for _, s := range p.signatures(t) {
			if !tested[s] {
				untested[s] = k.Name
			}
		}
	}
	known := map[string]bool{}
	for _, k := range cases {
		k.fill()
		operands := k.probeOperands(k.Types[0])
		if ops := fmt.Sprint(k.opNames(t, operands)); known[ops] {
			continue
		} else {
			known[ops] = true
		}
		for _, a := range ggml.Types() {
			probe(&k, k.probeOperands(a))
			for n := range operands {
				probe(&k, retyped(operands, map[int]ggml.Type{n: a}))
			}
			for _, b := range ggml.Types() {
				for n := 1; n < len(operands); n++ {
					probe(&k, retyped(operands, map[int]ggml.Type{0: a, n: b}))
				}
			}
		}
	}
	for _, k := range probes {
		probe(&k, k.Operands(k.draw(ggml.F32)))
	}
	return untested
}

// signatures returns the names of an op with the types of its operands and result; for a sum of products, one
// for each product.
func signatures(n *ggml.Tensor) []string {
	var types []string
	for _, s := range n.Sources() {
		types = append(types, s.Type().String())
	}
	sign := func(types []string) string {
		return fmt.Sprintf("%s(%s) %v", n.Op(), strings.Join(types, ", "), n.Type())
	}
	var all []string
	switch {
	case n.OpCode().String() != "custom":
		return []string{sign(types)}
	case n.Op() == "gemv": // one X, then matrices
		for _, w := range types[1:] {
			all = append(all, sign([]string{w, types[0]}))
		}
	default: // pairs
		for pair := range slices.Chunk(types, 2) {
			all = append(all, sign(pair))
		}
	}
	return all
}

// signatures returns the signatures of the ops that a program computes; nil if it has an error, or if the CPU
// does not support them.
func (p *program) signatures(t testing.TB) []string {
	if p.leaves.Err() != nil || p.c.Err() != nil {
		return nil
	}
	var list []string
	for n := range p.c.NewGraph(p.y).Nodes() {
		if !computed(n) {
			continue
		}
		if !CPU(t).SupportsOp(n) {
			return nil
		}
		list = append(list, signatures(n)...)
	}
	require.NoError(t, p.c.Err())
	return list
}

// onlyViews reports whether the program computes nothing.
func (p *program) onlyViews() bool {
	if p.leaves.Err() != nil || p.c.Err() != nil {
		return false
	}
	return !slices.ContainsFunc(slices.Collect(p.c.NewGraph(p.y).Nodes()), computed)
}

// probeOperands draws operands whose rows are whole blocks of all types.
func (k *Case) probeOperands(typ ggml.Type) []Operand {
	d := k.draw(typ)
	d.block = 256
	d.Layouts = ContiguousOnly
	return k.Operands(d)
}

// opNames returns the names of a case's ops; further pairs do not make a sum of products another op.
func (k *Case) opNames(t testing.TB, operands []Operand) []string {
	p := newProgram(operands, k.Build)
	defer p.close()
	require.NoError(t, p.c.Err(), k.Name)
	names, sums := []string{fmt.Sprint(p.y.IsView())}, false
	for n := range p.c.NewGraph(p.y).Nodes() {
		names = append(names, n.Op())
		sums = sums || n.OpCode().String() == "custom"
	}
	if !sums {
		names = append(names, fmt.Sprint(len(operands)))
	}
	return names
}

// retyped changes the types of some operands.
func retyped(operands []Operand, types map[int]ggml.Type) []Operand {
	operands = slices.Clone(operands)
	for i, t := range types {
		operands[i].Type = t
	}
	return operands
}

// RunLayouts computes every case with each operand in each layout that the op accepts: the results must be
// correct. It is skipped with -short.
func RunLayouts(t *testing.T, cases []Case) {
	need.Time(t, "computes each op in all layouts")
	for _, k := range cases {
		k.fill()
		if !k.ByteStrides {
			t.Run(k.Name, k.runLayouts)
		}
	}
}

func (k *Case) runLayouts(t *testing.T) {
	d := k.draw(k.Types[len(k.Types)-1])
	d.Layouts = ContiguousOnly
	for range 4 {
		k.runLayoutsOf(t, k.Operands(d), d.Type)
	}
}

// runLayoutsOf sets the layout of all operands at once if the op accepts that, otherwise of one after the
// other.
func (k *Case) runLayoutsOf(t *testing.T, operands []Operand, typ ggml.Type) {
	taken, most := make([][]Layout, len(operands)), 0
	for i := range operands {
		for _, l := range AnyLayout {
			if l == Transposed && operands[i].Type.BlockSize() > 1 {
				continue // quantised rows consist of blocks, quantised columns do not
			}
			if k.takes(t, laidOut(operands, i, l)) {
				taken[i] = append(taken[i], l)
			}
		}
		most = max(most, len(taken[i]))
	}
	dev, want := Devices(t)[0], k.reference(operands)
	for round := range most {
		laid := slices.Clone(operands)
		for i, layouts := range taken {
			if len(layouts) > 0 {
				laid[i].Layout = layouts[(round+i)%len(layouts)]
			}
		}
		if k.takes(t, laid) {
			k.check(t, dev, laid, want, typ)
			continue
		}
		for i := range operands {
			if one := laidOut(operands, i, laid[i].Layout); len(taken[i]) > 0 {
				k.check(t, dev, one, want, typ)
			}
		}
	}
}

// laidOut sets the layout of an operand.
func laidOut(operands []Operand, i int, l Layout) []Operand {
	operands = slices.Clone(operands)
	operands[i].Layout = l
	return operands
}

// takes reports whether the op can be built and computed on these operands. Only their layout may be a reason
// against it.
func (k *Case) takes(t *testing.T, operands []Operand) bool {
	p := newProgram(operands, k.Build)
	defer p.close()
	list := p.signatures(t)
	if err := p.c.Err(); err != nil {
		require.Regexp(t, "contiguous", err.Error(), describe(operands))
	}
	return list != nil
}
