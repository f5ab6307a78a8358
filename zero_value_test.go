package ggml_test

import (
	"context"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Objects of this package as zero values, which the package did not make.
var zeroObjects = []any{
	&ggml.Backend{}, &ggml.Buffer{}, &ggml.BufferType{}, &ggml.Context{}, &ggml.Dataset{}, &ggml.Device{}, &ggml.Event{},
	&ggml.GGUF{}, &ggml.Graph{}, &ggml.GraphAllocator{}, &ggml.GraphPlan{}, &ggml.OpBuilder{}, &ggml.OptResult{}, &ggml.Optimizer{}, &ggml.Registry{},
	&ggml.Scheduler{}, &ggml.Tensor{}, &ggml.TensorAllocator{}, &ggml.ThreadPool{}, &ggml.WeightCopy{},
}

// Types whose zero value is valid.
var zeroPlain = []any{
	&ggml.Buffers{}, ggml.CPUTraits{}, ggml.CustomTensor{}, ggml.DeviceMemory{}, &ggml.FileError{}, ggml.GGUFTensor{}, ggml.GraphSummary{}, ggml.Layout{},
	&ggml.OpError{}, ggml.Operand{}, &ggml.PanicError{}, ggml.Profile{{}}, ggml.RoPE{}, ggml.ThreadPoolParams{}, ggml.Worker{},
}

// Functions, as opposed to methods, that take objects.
var zeroFunctions = map[string]any{
	"CanRepeat": ggml.CanRepeat, "CopyTensor": ggml.CopyTensor, "CopyTensorAsync": ggml.CopyTensorAsync,
	"SplitTensorEvenly": ggml.SplitTensorEvenly, "Fit": ggml.Fit, "GGUFValue": ggml.GGUFValue[string], "NewGraphAllocator": ggml.NewGraphAllocator,
	"NewMetaDevice": ggml.NewMetaDevice, "NewOptimizer": ggml.NewOptimizer, "NewScheduler": ggml.NewScheduler,
	"NewTensorAllocator": ggml.NewTensorAllocator, "Read": ggml.Read[float32], "ReadInto": ggml.ReadInto[float32],
	"SameShape": ggml.SameShape, "SameStride": ggml.SameStride, "Write": ggml.Write[float32],
}

// arguments makes the arguments of a function. All objects of this package are zero values, or only
// object number zero is, and the others are real.
func arguments(f reflect.Type, zero int, real map[reflect.Type]reflect.Value) []reflect.Value {
	args, _ := makeArguments(f, zero, real)
	return args
}

// countObjects counts the objects that a function takes, including those in structs.
func countObjects(f reflect.Type) int {
	_, n := makeArguments(f, -1, nil)
	return n
}

func makeArguments(f reflect.Type, zero int, real map[reflect.Type]reflect.Value) (args []reflect.Value, objects int) {
	var value func(t reflect.Type) reflect.Value
	value = func(t reflect.Type) reflect.Value {
		if isObject(t) {
			if objects++; objects-1 == zero {
				return argument(t)
			}
		}
		if x, found := real[t]; found {
			return x
		}
		x := argument(t)
		if t.Kind() == reflect.Struct {
			x = reflect.New(t).Elem()
			for i := range t.NumField() {
				if field := t.Field(i); field.IsExported() && (isObject(field.Type) || field.Type.Kind() == reflect.Func) {
					x.Field(i).Set(value(field.Type))
				}
			}
		}
		return x
	}
	for i := range f.NumIn() {
		in := f.In(i)
		if variadic := in.Kind() == reflect.Slice && in.Elem().Kind() == reflect.Pointer; variadic {
			args = append(args, reflect.Append(reflect.Zero(in), value(in.Elem())))
			continue
		}
		args = append(args, value(in))
	}
	return args, objects
}

// isObject reports whether a type is a pointer to a type of this package.
func isObject(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[ggml.Device]().PkgPath()
}

func argument(t reflect.Type) reflect.Value {
	switch {
	case t == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case t == reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard)
	case t == reflect.TypeFor[*rand.Rand]():
		return reflect.ValueOf(rand.New(rand.NewPCG(1, 2)))
	case t == reflect.TypeFor[any]():
		return reflect.ValueOf(int32(1))
	case t.Kind() == reflect.Pointer:
		return reflect.New(t.Elem())
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) (results []reflect.Value) {
			for i := range t.NumOut() {
				results = append(results, reflect.Zero(t.Out(i)))
			}
			return results
		})
	case t.Kind() == reflect.Slice:
		return reflect.MakeSlice(t, 4, 4)
	}
	return reflect.Zero(t)
}

// call calls a function, and iterates over its result if it is an iterator. It returns the error,
// and whether the function returns one. It fails the test for a panic, and for a call that does not
// return.
func call(t *testing.T, f reflect.Value, args []reflect.Value) (err error, gives bool) {
	done := make(chan []reflect.Value, 1)
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		invoke := f.Call
		if f.Type().IsVariadic() {
			invoke = f.CallSlice
		}
		results := invoke(args)
		for _, r := range results {
			if r.Kind() == reflect.Func && !r.IsNil() && strings.HasPrefix(r.Type().String(), "iter.Seq") {
				r.Call([]reflect.Value{argument(r.Type().In(0))})
			}
		}
		done <- results
	}()
	select {
	case results := <-done:
		if n := len(results); n > 0 && results[n-1].Type() == reflect.TypeFor[error]() {
			err, _ = results[n-1].Interface().(error)
			return err, true
		}
	case <-time.After(time.Minute):
		t.Error("the call does not end")
	}
	return nil, false
}

func typeName(x any) string {
	return strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", x), "*"), "ggml.")
}

// Errors of methods of zero values other than ErrZeroValue.
var zeroOtherwise = map[string]string{
	"WeightCopy.Copy":     "the copy of a weight is gone",
	"WeightCopy.Operands": "the copy of a weight is gone",
}

// A zero value never ends the process and is never valid: its methods return an error that says so,
// or nothing.
func TestZeroReceivers(t *testing.T) {
	require.Contains(t, fmt.Sprint(&ggml.Tensor{}), "zero value")
	testReceivers(t, func(object reflect.Type) reflect.Value { return reflect.New(object.Elem()) })
}

// The same holds for nil.
func TestNilReceivers(t *testing.T) {
	require.Equal(t, "nil", fmt.Sprint((*ggml.Tensor)(nil)))
	testReceivers(t, reflect.Zero)
}

func testReceivers(t *testing.T, receiver func(object reflect.Type) reflect.Value) {
	real := realObjects(t)
	for _, x := range zeroObjects {
		for i := range reflect.TypeOf(x).NumMethod() {
			name := typeName(x) + "." + reflect.TypeOf(x).Method(i).Name
			if name == "Tensor.Format" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				method := receiver(reflect.TypeOf(x)).Method(i)
				err, gives := call(t, method, arguments(method.Type(), -1, nil))
				if says, otherwise := zeroOtherwise[name]; otherwise {
					require.ErrorContains(t, err, says)
				} else if gives && !strings.HasSuffix(name, ".Close") {
					require.ErrorIs(t, err, ggml.ErrZeroValue)
				}
				if err, _ := call(t, method, arguments(method.Type(), -1, real)); gives && !strings.HasSuffix(name, ".Close") {
					require.Error(t, err)
				}
			})
		}
	}
	for _, x := range zeroPlain {
		for i := range reflect.TypeOf(x).NumMethod() {
			name := typeName(x) + "." + reflect.TypeOf(x).Method(i).Name
			t.Run(name, func(t *testing.T) {
				if name == "CustomTensor.RowBytes" { // panics for rows out of range, as documented
					return
				}
				of := reflect.ValueOf(x)
				if of.Kind() == reflect.Pointer {
					of = receiver(of.Type())
				}
				method := of.Method(i)
				call(t, method, arguments(method.Type(), -1, real))
			})
		}
	}
}

// A function, or a method of a real object, also fails with zero values: all arguments, or one
// beside real objects.
func TestZeroArguments(t *testing.T) {
	real := realObjects(t)
	functions := maps.Clone(zeroFunctions)
	for _, x := range real {
		for i := range x.NumMethod() {
			functions[typeName(x.Interface())+"."+x.Type().Method(i).Name] = x.Method(i).Interface()
		}
	}
	for name, f := range functions {
		f := reflect.ValueOf(f)
		objects := countObjects(f.Type())
		if objects == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			err, gives := call(t, f, arguments(f.Type(), -1, nil))
			if gives {
				require.Error(t, err)
			}
			for i := range objects {
				if err, gives := call(t, f, arguments(f.Type(), i, real)); gives {
					require.Error(t, err, "object %d", i)
				}
			}
		})
	}
}

// An op on zero values fails, whether all operands are zero values or one of them.
func TestZeroOperands(t *testing.T) {
	real := realObjects(t)
	for i := range reflect.TypeFor[*ggml.Context]().NumMethod() {
		m := reflect.TypeFor[*ggml.Context]().Method(i)
		objects := countObjects(m.Type) - 1 // without the receiver
		if objects == 0 || m.Type.NumOut() != 1 || m.Type.Out(0) != reflect.TypeFor[*ggml.Tensor]() && m.Type.Out(0) != reflect.TypeFor[*ggml.Graph]() {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			for zero := range objects {
				c := ggml.NewContext()
				defer c.Close()
				method := reflect.ValueOf(c).Method(i)
				call(t, method, arguments(method.Type(), zero, real))
				require.Error(t, c.Err(), "object %d", zero)
			}
			c := ggml.NewContext()
			defer c.Close()
			method := reflect.ValueOf(c).Method(i)
			call(t, method, arguments(method.Type(), -1, nil))
			require.ErrorIs(t, c.Err(), ggml.ErrZeroValue)
		})
	}
}

// A copy of a value behaves like the value, if go vet allows the copy.
func TestCopiedValues(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	tensor, device, memory, registry := *x, *optest.CPU(t), *ggml.CPUBufferType(), *optest.CPU(t).Registry()
	require.True(t, tensor.Is(x))
	require.NoError(t, ggml.Write(&tensor, []float32{1, 2}))
	require.Equal(t, optest.CPU(t).Name(), device.Name())
	require.Equal(t, optest.CPU(t).Registry().Name(), registry.Name())
	require.True(t, device.SupportsBufferType(&memory))

	// Checks use fields that the caller cannot change.
	traits := need.Value(ggml.Q8_0.CPUTraits())(t)
	traits.Type, traits.DotType = ggml.F32, ggml.F32
	_, err := traits.Dot(make([]byte, 128), make([]byte, 128), 32)
	require.ErrorContains(t, err, "takes 34 bytes of q8_0")

	b := optest.NewCPUBackend(t, 1)
	list := []*ggml.Backend{b}
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, list...))(t)
	defer s.Close()
	list[0] = nil
	g := c.NewGraph(c.Neg(x))
	require.NoError(t, s.Allocate(g))
	require.NoError(t, s.Compute(context.Background(), g))
}

// The lists above contain every object, and every function that takes one.
func TestZeroValuesComplete(t *testing.T) {
	p, _ := readPackage(t, ".")
	known := map[string]bool{}
	for _, x := range append(zeroObjects, zeroPlain...) {
		known[typeName(x)] = true
	}
	objects := map[string]bool{}
	for _, x := range zeroObjects {
		objects[typeName(x)] = true
	}
	functions := p.Funcs
	for _, noun := range p.Types {
		functions = append(functions, noun.Funcs...)
		spec := noun.Decl.Specs[0].(*ast.TypeSpec)
		if _, isStruct := spec.Type.(*ast.StructType); isStruct && len(noun.Methods) > 0 {
			require.True(t, known[noun.Name], "%s is in no list of zero_value_test.go", noun.Name)
		}
	}
	for _, f := range functions {
		for _, param := range f.Decl.Type.Params.List {
			typ := param.Type
			if rest, ok := typ.(*ast.Ellipsis); ok {
				typ = rest.Elt
			}
			pointer, ok := typ.(*ast.StarExpr)
			if !ok {
				continue
			}
			if name, ok := pointer.X.(*ast.Ident); ok && objects[name.Name] {
				require.Contains(t, zeroFunctions, f.Name, "a function that takes objects is not in zero_value_test.go")
			}
		}
	}
}

// realObjects makes one object of each kind.
func realObjects(t *testing.T) map[reflect.Type]reflect.Value {
	b, c := optest.NewCPUBackend(t, 1), ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	x := c.NewTensor(ggml.F32, 4, 2)
	p := c.NewTensor(ggml.F32, 4, 3).SetParam()
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	t.Cleanup(func() { buffers.Close() })
	buffer := need.Value(ggml.CPUBufferType().NewBuffer(1024))(t)
	t.Cleanup(func() { buffer.Close() })
	tensors := need.Value(ggml.NewTensorAllocator(buffer))(t)
	d := need.Value(ggml.NewDataset(ggml.DatasetOptions{Samples: 2, SampleSize: 4}))(t)
	t.Cleanup(func() { d.Close() })
	o := need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{Inputs: x, Outputs: c.MulMat(p, x)}, b))(t)
	t.Cleanup(func() { o.Close() })
	result := need.Value(ggml.NewOptResult())(t)
	t.Cleanup(func() { result.Close() })
	pool := need.Value(ggml.NewThreadPool(ggml.DefaultThreadPoolParams(1)))(t)
	t.Cleanup(func() { pool.Close() })
	g := need.Value(ggml.NewGGUF())(t)
	t.Cleanup(func() { g.Close() })
	objects := map[reflect.Type]reflect.Value{}
	for _, x := range []any{
		b, buffer, buffers, ggml.CPUBufferType(), c, d, optest.CPU(t), g, c.NewGraph(c.Neg(x)), optest.NewGraphAllocator(t), result, o,
		optest.CPU(t).Registry(), optest.NewScheduler(t, b), x, tensors, pool,
	} {
		objects[reflect.TypeOf(x)] = reflect.ValueOf(x)
	}
	return objects
}
