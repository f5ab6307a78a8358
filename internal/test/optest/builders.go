package optest

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/testhook"
)

// Builders are the functions with which cases build their ops. Names lack the prefix: "Add" stands for
// "github.com/goggml/ggml.(*Context).Add". They are observed at run time, because a case registers an op by
// building it.
type Builders struct {
	Result map[string][]string // builders whose tensors are results of cases, with the last ops of these results
	Used   map[string]bool     // builders of Result, and all others that cases call
}

// A builder has what all kinds of cases need to build their ops.
type builder interface {
	build(t *testing.T) *program
}

// FindBuilders builds each case once.
func FindBuilders[C any, P interface {
	*C
	builder
}](t *testing.T, before string, cases []C) Builders {
	b := Builders{map[string][]string{}, map[string]bool{}}
	for i := range cases {
		last := ""
		testhook.Built = func() {
			if name := calledFrom(before); name != "" {
				b.Used[name], last = true, name
			}
		}
		p := P(&cases[i]).build(t)
		testhook.Built = nil
		op := p.lastOp()
		require.NoError(t, p.c.Err())
		p.close()
		if !slices.Contains(b.Result[last], op) {
			b.Result[last] = append(b.Result[last], op)
			slices.Sort(b.Result[last])
		}
	}
	return b
}

// lastOp returns the op of the result, or a native op from which it is built.
func (p *program) lastOp() string {
	op := p.y.Op()
	for n := range p.c.NewGraph(p.y).Nodes() {
		if n.OpCode().String() == "custom" {
			op = n.Op()
		}
	}
	return op
}

// calledFrom returns the function or method that code outside of its package has called.
func calledFrom(before string) string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	called := ""
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if name, found := strings.CutPrefix(f.Function, before); found {
			called, _, _ = strings.Cut(name, ".")
		}
	}
	return called
}

func (k *Case) build(t *testing.T) *program {
	k.fill()
	return newProgram(k.probeOperands(k.Types[0]), k.Build)
}

func (k *GradCase) build(t *testing.T) *program { return newProgram(k.Operands(k.draw()), k.Build) }
