package fuzz

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/goggml/ggml"
)

// A program is a random use of the package.
type program struct {
	*rand.Rand
	machine *Machine
	trace   io.Writer // may be nil

	leaves  *ggml.Context // tensors with data
	c       *ggml.Context // ops
	trial   *ggml.Context // ops that may fail
	foreign *ggml.Tensor  // in a context that is not allocated
	pool    []*ggml.Tensor
	data    []leaf
	guards  []*ggml.Tensor // between the others in memory, never written

	width    int64 // maximum elements of a row
	wildData bool  // any numbers, including NaN
	huge     bool  // too large to compute
	training bool
	simple   bool // operands are separate contiguous tensors, most without dimensions of size 1
	flat     bool // with dimensions of size 1, if simple
	aliased  bool // an op reads what it writes, so results depend on the order of threads

	used map[string]bool // ops that accepted their operands
}

var errCustom = errors.New("a custom op failed")

// A Fault is a violation that did not end the process.
type Fault struct {
	Seed uint64
	Err  error
}

func (f *Fault) Error() string { return fmt.Sprintf("program %d: %v", f.Seed, f.Err) }
func (f *Fault) Unwrap() error { return f.Err }

// Run runs the program of a seed. If trace is not nil, it receives each step before it runs.
func Run(m *Machine, seed uint64, trace io.Writer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Fault{seed, fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := &program{Rand: r, machine: m, trace: trace, used: map[string]bool{}}
	kind := p.kind()
	p.note("a program of %s", kind.name)
	before := ggml.OpenObjects()
	if err := kind.run(p); err != nil {
		return &Fault{seed, err}
	}
	for what, n := range ggml.OpenObjects() {
		if n > before[what] { // fewer if the last object of another program was collected
			return &Fault{seed, fmt.Errorf("the program has closed all, but %d %s stay open", n-before[what], what)}
		}
	}
	m.Stats.Programs++
	return nil
}

type kind struct {
	name  string
	share int // of 100 programs
	run   func(p *program) error
}

var kinds []kind

func init() {
	kinds = []kind{
		{"single", 15, (*program).runSingle},
		{"ops", 40, (*program).runOps},
		{"training", 20, (*program).runTraining},
		{"objects", 12, (*program).runObjects},
		{"goroutines", 3, (*program).runGoroutines},
		{"files", 10, (*program).runFiles},
	}
}

func (p *program) kind() kind {
	i := p.IntN(100)
	for _, k := range kinds {
		if k.name == p.machine.Kind {
			return k
		}
	}
	for _, k := range kinds {
		if i -= k.share; i < 0 {
			return k
		}
	}
	panic("the shares are not 100")
}

func (p *program) note(format string, args ...any) {
	if p.trace != nil {
		fmt.Fprintf(p.trace, format+"\n", args...)
	}
}

func (p *program) keep(t *ggml.Tensor) *ggml.Tensor {
	p.pool = append(p.pool, t)
	return t
}

func (p *program) open() {
	p.leaves, p.c, p.trial = ggml.NewContext(), ggml.NewContext(), ggml.NewContext()
	// Each program has its own: an allocator might have allocated a shared one in an earlier program, and an op
	// in place would then act on old results.
	p.foreign = ggml.NewContext().NewTensor(ggml.F32, 4)
	p.width = []int64{4, 20, 70, 300}[p.IntN(4)]
}

func (p *program) close() {
	p.foreign.Context().Close()
	p.trial.Close()
	p.c.Close()
	p.leaves.Close()
}

// build calls n random ops.
func (p *program) build(n int, names []string) {
	for range n {
		name := names[p.IntN(len(names))]
		o, _ := opOf(name)
		p.call(o, p.args(o))
	}
}

// args draws the arguments of an op: mostly valid ones, sometimes with one replaced, rarely arbitrary ones.
func (p *program) args(o op) []reflect.Value {
	if p.IntN(16) == 0 {
		return p.wildArgs(o)
	}
	args := p.arguments(o)
	if p.IntN(8) == 0 && len(args) > 0 {
		args = settable(args)
		x := args[p.IntN(len(args))]
		if x.Kind() == reflect.Struct && p.IntN(4) > 0 {
			x = x.Field(p.IntN(x.NumField()))
		}
		x.Set(p.wild(x.Type()))
	}
	return args
}

// arguments draws arguments that an op accepts.
func (p *program) arguments(o op) (args []reflect.Value) {
	for i, a := range generators[o.name](p) {
		if a == nil { // a nil function, or a nil of another type
			args = append(args, reflect.Zero(argType(o, i)))
			continue
		}
		args = append(args, reflect.ValueOf(a))
	}
	return args
}

// settable returns a copy of arguments that can be modified.
func settable(args []reflect.Value) []reflect.Value {
	copies := make([]reflect.Value, len(args))
	for i, a := range args {
		copies[i] = reflect.New(a.Type()).Elem()
		copies[i].Set(a)
	}
	return copies
}

// operands returns the tensors among arguments, including nil: arguments, or fields of structs.
func operands(args []reflect.Value) []reflect.Value {
	var tensors []reflect.Value
	for _, a := range args {
		if a.Type() == tensorType {
			tensors = append(tensors, a)
		}
		for i := 0; a.Kind() == reflect.Struct && i < a.NumField(); i++ {
			if f := a.Field(i); f.Type() == tensorType {
				tensors = append(tensors, f)
			}
		}
	}
	return tensors
}

func argType(o op, i int) reflect.Type {
	t := o.f.Type()
	if t.IsVariadic() && i+1 >= t.NumIn()-1 {
		return t.In(t.NumIn() - 1).Elem()
	}
	return t.In(i + 1)
}

// call calls an op, first in a trial context, so that a refusal does not affect the others.
func (p *program) call(o op, args []reflect.Value) {
	if p.trace != nil {
		p.note("try %s", describe(o.name, args))
	}
	p.invoke(p.trial, o, args)
	if err := p.trial.Err(); err != nil {
		p.note("  %v", err)
		p.machine.Stats.refused(o.name, err)
		p.trial.Close()
		p.trial = ggml.NewContext()
		if p.IntN(200) > 0 { // rarely, let it fail with all that follows
			return
		}
	}
	if p.leaves.Err() != nil {
		return // all arguments come from failures
	}
	p.guards = append(p.guards, p.c.NewTensor(ggml.F32, guardSize))
	p.aliased = p.aliased || aliased(o.name, args)
	results := p.invoke(p.c, o, args)
	if p.c.Err() != nil {
		return
	}
	p.used[o.name] = true
	if p.trace != nil {
		p.note("t%d = %s", len(p.pool), describe(o.name, args))
	}
	for _, t := range results {
		p.keep(t)
		if t.Op() == "none" && !t.IsView() { // a leaf
			p.fill(t.SetInput())
		}
	}
}

// invoke calls an op, and returns its results.
func (p *program) invoke(c *ggml.Context, o op, args []reflect.Value) []*ggml.Tensor {
	var results []*ggml.Tensor
	for _, r := range o.f.Call(append([]reflect.Value{reflect.ValueOf(c)}, args...)) {
		if !r.IsNil() {
			results = append(results, r.Interface().(*ggml.Tensor))
		}
	}
	return results
}

// aliased reports whether an op writes an operand that shares memory with another one.
func aliased(name string, args []reflect.Value) bool {
	target := 0
	switch {
	case name == "Copy":
		target = 1
	case name == "SetRows", strings.HasSuffix(name, "InPlace"), strings.HasPrefix(name, "OptStep"):
	default:
		return false
	}
	tensors := operands(args)
	if target >= len(tensors) {
		return false
	}
	written := root(tensors[target])
	for i, a := range tensors {
		if i != target && written != nil && written.Is(root(a)) {
			return true
		}
	}
	return false
}

// root returns the tensor that owns an operand's memory.
func root(a reflect.Value) *ggml.Tensor {
	t := tensorOf(a)
	if source, found := t.ViewSource(); found {
		return source
	}
	return t
}

func clipped(s string) string { return s[:min(len(s), 100)] }

func describe(name string, args []reflect.Value) string {
	var s []string
	for _, a := range args {
		s = append(s, describeArg(a))
	}
	return name + "(" + strings.Join(s, ", ") + ")"
}

func describeArg(a reflect.Value) string {
	t := tensorOf(a)
	switch {
	case t != nil:
		return fmt.Sprintf("%v%v strides [%d %d %d %d] of %s", t.Type(), dims(t), t.Stride(0), t.Stride(1), t.Stride(2), t.Stride(3), t.Op())
	case a.Kind() == reflect.Pointer:
		return fmt.Sprintf("%v %p", a.Type(), a.Interface())
	case len(operands([]reflect.Value{a})) == 0:
		return clipped(fmt.Sprintf("%v", a))
	}
	var fields []string
	for i := range a.NumField() {
		fields = append(fields, a.Type().Field(i).Name+": "+describeArg(a.Field(i)))
	}
	return a.Type().Name() + "{" + strings.Join(fields, ", ") + "}"
}

// runSingle computes one op, so that a failure names it.
func (p *program) runSingle() error {
	p.open()
	defer p.close()
	p.build(1, opNames)
	return p.compute()
}

func (p *program) runOps() error {
	p.open()
	defer p.close()
	p.wildData = p.IntN(4) == 0
	names := opNames
	if p.IntN(4) == 0 { // often a few ops
		names = nil
		for range 4 {
			names = append(names, opNames[p.IntN(len(opNames))])
		}
	}
	p.build(1+p.IntN(12), names)
	return p.compute()
}
