package optest

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/testhook"
)

// Builders are the functions that cases build their ops by, named without what comes before in full: "Add" with
// "github.com/goggml/ggml.(*Context).". They are seen at work, since a case registers an op by building it.
type Builders struct {
	Result map[string]bool // those whose tensors are results of cases
	Used   map[string]bool // these, and those that the cases call beside them
}

// A builder is what all cases have to build their ops.
type builder interface {
	build(t *testing.T) *program
}

// FindBuilders builds each case once.
func FindBuilders[C any, P interface {
	*C
	builder
}](t *testing.T, before string, cases []C) Builders {
	b := Builders{Result: map[string]bool{}, Used: map[string]bool{}}
	for i := range cases {
		last := ""
		testhook.Built = func() {
			if name := calledFrom(before); name != "" {
				b.Used[name], last = true, name
			}
		}
		p := P(&cases[i]).build(t)
		testhook.Built = nil
		require.NoError(t, p.c.Err())
		p.close()
		b.Result[last] = true
	}
	return b
}

// calledFrom names the function of a package, or the method of a type, that those outside of it have called.
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
