package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A world has objects of all kinds for random calls, including closed ones, zero values, and nil.
type world struct {
	*program
	mu      *sync.Mutex // guards pool and the random numbers
	pool    map[reflect.Type][]reflect.Value
	without map[string]bool // calls to omit
}

// Functions of the package, in addition to the methods of its objects.
var functions = map[string]any{
	"CanRepeat": ggml.CanRepeat, "ConstantParams": ggml.ConstantParams,
	"CopyTensor": ggml.CopyTensor, "CopyTensors": ggml.CopyTensors, "CopyTensorAsync": ggml.CopyTensorAsync, "DefaultThreads": ggml.DefaultThreads,
	"Dequantize": ggml.Dequantize, "Fit": ggml.Fit, "FromFloat32s": ggml.FromFloat32s[ggml.Float16], "GGUFValue": ggml.GGUFValue[uint32],
	"IsNUMA": ggml.IsNUMA, "ReadChunks": ggml.ReadChunks, "WriteChunks": ggml.WriteChunks, "OpenObjects": ggml.OpenObjects, "Quantize": ggml.Quantize, "Read": ggml.Read[float32],
	"ReadInto": ggml.ReadInto[int32], "Registries": ggml.Registries, "SameShape": ggml.SameShape, "SameStride": ggml.SameStride,
	"ToFloat32s": ggml.ToFloat32s[ggml.BFloat16], "ValidateRows": ggml.ValidateRows, "Write": ggml.Write[float32],
	"NewBackendByName": ggml.NewBackendByName, "NewBackendByType": ggml.NewBackendByType, "NewBLASBackend": ggml.NewBLASBackend,
	"NewCPUBackend": ggml.NewCPUBackend, "NewBestBackend": ggml.NewBestBackend, "NewBufferFrom": ggml.NewBufferFrom,
	"CPUBufferType": ggml.CPUBufferType, "ReadCPUInfo": ggml.ReadCPUInfo, "NewContext": ggml.NewContext, "NewDataset": ggml.NewDataset, "NewDatasetOf": ggml.NewDatasetOf,
	"BLASDevice": ggml.BLASDevice, "DeviceByName": ggml.DeviceByName, "DeviceByType": ggml.DeviceByType, "Devices": ggml.Devices,
	"MemoryReport": ggml.MemoryReport, "CPUFeatures": ggml.CPUFeatures, "NewGGUF": ggml.NewGGUF,
	"NewGraphAllocator": ggml.NewGraphAllocator, "NewOptResult": ggml.NewOptResult, "NewOptimizer": ggml.NewOptimizer,
	"DefaultOptimizerParams": ggml.DefaultOptimizerParams, "CPURegistry": ggml.CPURegistry, "RegistryByName": ggml.RegistryByName,
	"NewScheduler": ggml.NewScheduler, "NewTensorAllocator": ggml.NewTensorAllocator, "NewThreadPool": ggml.NewThreadPool,
	"DefaultThreadPoolParams": ggml.DefaultThreadPoolParams, "ParseType": ggml.ParseType, "ReadGGUF": ggml.ReadGGUF,
	"CUDADevices": ggml.CUDADevices, "MetalDevices": ggml.MetalDevices, "VulkanDevices": ggml.VulkanDevices, "RPCDevices": ggml.RPCDevices,
	"NewCUDABackend": ggml.NewCUDABackend, "NewVulkanBackend": ggml.NewVulkanBackend, "NewMetalBackend": ggml.NewMetalBackend,
	"Version": ggml.Version, "UnusedGPU": ggml.UnusedGPU, "Commit": ggml.Commit,
	"Types": ggml.Types, "Unaries": ggml.Unaries, "OpCodes": ggml.OpCodes, "ToFloat16": ggml.ToFloat16, "ToBFloat16": ggml.ToBFloat16, "Logger": ggml.Logger,
	"LoadBackends": ggml.LoadBackends, "InitCPU": ggml.InitCPU, "FreeQuantizeTables": ggml.FreeQuantizeTables, "SplitTensorEvenly": ggml.SplitTensorEvenly,
	"PinForCUDA":  ggml.PinForCUDA,
	"GEMMLibrary": kernels.GEMMLibrary, "HasBF16": kernels.HasBF16, "HasF16Accumulation": kernels.HasF16Accumulation,
	"FastestType": kernels.FastestType, "HasBatchedGEMV": kernels.HasBatchedGEMV, "HasTrainingOps": kernels.HasTrainingOps, "RemoteOps": ggml.RemoteOps,
}

// Calls to omit, with the reason.
var leftOut = map[string]string{
	"CustomRow":           "panics as documented, where an op calls it",
	"CustomSlice":         "panics as documented, where an op calls it",
	"PackLoRA":            "it makes no tensor",
	"EditGGUF":            "it edits files: see the programs of files",
	"OpenGGUF":            "see the programs of files",
	"OpenGGUFPart":        "see the programs of files",
	"HasIntegers":         "it makes no tensor",
	"HasBF16Attention":    "it makes no tensor",
	"IntegerInstructions": "it makes no tensor",
	"HasI8":               "it makes no tensor",
	"InitNUMA":            "it changes the process for good",
	"LoadBackend":         "a random file is not a plugin, but one that is runs",
	"LoadBackendsFrom":    "as LoadBackend",
	"AddRPCServer":        "it waits for a server",
	"NewMetaDevice":       "its devices live as long as the process",
	"SetLogger":           "it changes the process",
	"FreeOSMemory":        "it changes nothing, and takes long",

	"RegisterRemoteOps":     "as SetLogger",
	"RegisterScratchMemory": "as SetLogger",
	"Registry.Unload":       "others use it",
	"GGUF.WriteFile":        "see the programs of files",
	"GGUF.WriteParts":       "see the programs of files",
	"Tensor.Format":         "fmt calls it",
}

// Objects that exist once per process.
var lasting = []reflect.Type{reflect.TypeFor[*ggml.Device](), reflect.TypeFor[*ggml.BufferType](), reflect.TypeFor[*ggml.Registry]()}

func (p *program) newWorld() *world {
	w := &world{program: p, mu: &sync.Mutex{}, pool: map[reflect.Type][]reflect.Value{}, without: map[string]bool{}}
	p.open()
	p.width = 8
	p.wildData = p.IntN(2) == 0
	w.add(p.leaves, p.c)
	p.build(4, opNames)
	p.data = p.data[:min(len(p.data), 8)]
	for _, t := range p.pool {
		w.add(t)
	}
	w.populate()
	return w
}

// populate creates an object of each kind, and several of some.
func (w *world) populate() {
	devices, err := ggml.Devices()
	if err != nil {
		panic(err)
	}
	for _, d := range devices {
		w.add(d, d.BufferType(), d.Registry())
	}
	backend := must(ggml.NewCPUBackend(1 + w.IntN(3)))
	x, y := w.c.NewTensor(ggml.F32, 8, 4), w.c.NewTensor(ggml.F32, 8, 4).SetParam()
	loss := w.c.Sum(w.c.Mul(x, y))
	if w.c.Err() == nil {
		w.add(x, y, loss, w.c.NewGraph(loss), w.c.NewTrainingGraph(loss.SetLoss()))
	}
	if buffers, err := w.leaves.Allocate(ggml.CPUBufferType()); err == nil {
		w.add(buffers)
		if err := w.write(); err != nil {
			w.note("%v", err)
		}
	}
	buffer := must(ggml.CPUBufferType().NewBuffer(4096))
	w.add(backend, buffer, must(ggml.NewTensorAllocator(buffer)), must(ggml.NewGraphAllocator(ggml.CPUBufferType())))
	w.add(must(ggml.NewScheduler(ggml.SchedulerOptions{}, backend)), must(ggml.NewDataset(ggml.DatasetOptions{Samples: 6, SampleSize: 8, LabelSize: 2, Shard: 2})), must(ggml.NewOptResult()))
	w.add(must(ggml.NewGGUF()), must(ggml.NewThreadPool(ggml.DefaultThreadPoolParams(2))))
	if o, err := ggml.NewOptimizer(ggml.OptimizerOptions{}, backend); err == nil {
		w.add(o)
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func (w *world) add(objects ...any) {
	for _, x := range objects {
		w.keepResult(reflect.ValueOf(x))
	}
}

// Filling gigabytes of memory would look like a hang.
const fillable = 64 << 20

type memory interface {
	io.Closer
	Size() int64
	Clear(value byte) error
}

// keepResult puts an object that a call returned into the pool.
func (w *world) keepResult(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.Len() > 0 {
		v = v.Index(0)
	}
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem().PkgPath() != contextType.Elem().PkgPath() {
		return
	}
	if b, ok := v.Interface().(memory); ok && b.Size() > fillable {
		b.Close()
		return
	}
	w.pool[v.Type()] = append(w.pool[v.Type()], v)
}

// runObjects makes random calls.
func (p *program) runObjects() error {
	w := p.newWorld()
	defer w.end()
	for range 10 + p.IntN(40) {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

// runGoroutines makes random calls in several goroutines at once. They write no tensors, as callers must not
// while others read them.
func (p *program) runGoroutines() error {
	w := p.newWorld()
	defer w.end()
	for _, name := range []string{
		"Write", "WriteChunks", "CopyTensor", "CopyTensors", "CopyTensorAsync", "Tensor.Memset", "Tensor.WriteAt", "Tensor.WriteRegion", "Tensor.Fill", "Tensor.SetFloat32s",
		"Tensor.SetFloat32At", "Tensor.FillInt32", "Tensor.SetInt32At", "Buffer.Clear", "Buffers.Clear", "Backend.WriteAsync", "Backend.WriteRegionAsync",
	} {
		w.without[name] = true
	}
	faults := make(chan error, 4)
	for range cap(faults) {
		go func() {
			var err error
			for range 10 {
				if err = w.step(); err != nil {
					break
				}
			}
			faults <- err
		}()
	}
	var all []error
	for range cap(faults) {
		all = append(all, <-faults)
	}
	return errors.Join(all...)
}

// end closes all objects.
func (w *world) end() {
	for t, list := range w.pool {
		if slices.Contains(lasting, t) {
			continue
		}
		for _, x := range list {
			switch x := x.Interface().(type) {
			case *ggml.Graph:
				x.Context().Close()
			case *ggml.Tensor:
				x.Context().Close()
			case io.Closer:
				x.Close()
			}
		}
	}
	w.program.close()
}

// step makes one call.
func (w *world) step() (err error) {
	w.mu.Lock()
	name, f, args := w.draw()
	if w.trace != nil {
		w.note("call %s", describe(name, args))
	}
	w.mu.Unlock()
	if w.without[name] || leftOut[name] != "" {
		return nil
	}
	defer func() {
		if r := recover(); r != nil && r != any(errWanted) {
			err = fmt.Errorf("%s panicked: %v\n%s", describe(name, args), r, debug.Stack())
		}
	}()
	results := f.Call(args)
	for _, r := range results {
		if e, ok := r.Interface().(error); ok && e != nil {
			w.mu.Lock()
			w.note("  %v", e)
			w.mu.Unlock()
			if errors.Is(e, ggml.ErrBroken) && !errors.Is(e, errWanted) {
				return e
			}
			continue
		}
		w.consume(r)
		w.mu.Lock()
		w.keepResult(r)
		w.mu.Unlock()
	}
	return nil
}

// consume runs through an iterator.
func (w *world) consume(r reflect.Value) {
	t := r.Type()
	if t.Kind() != reflect.Func || t.NumIn() != 1 || t.In(0).Kind() != reflect.Func || t.In(0).NumOut() != 1 || r.IsNil() {
		return
	}
	n := 0
	r.Call([]reflect.Value{reflect.MakeFunc(t.In(0), func([]reflect.Value) []reflect.Value {
		n++
		return []reflect.Value{reflect.ValueOf(n < 100)}
	})})
}

var functionNames = slices.Sorted(maps.Keys(functions))

// draw draws a function or a method of an object, and its arguments.
func (w *world) draw() (name string, f reflect.Value, args []reflect.Value) {
	if w.IntN(4) == 0 {
		name = functionNames[w.IntN(len(functionNames))]
		f = reflect.ValueOf(functions[name])
		return name, f, w.arguments(f.Type())
	}
	types := slices.SortedFunc(maps.Keys(w.pool), func(a, b reflect.Type) int {
		return bytes.Compare([]byte(a.String()), []byte(b.String()))
	})
	t := types[w.IntN(len(types))]
	object := w.pool[t][w.IntN(len(w.pool[t]))]
	if w.IntN(40) == 0 {
		object = reflect.New(t.Elem())
	}
	i := w.IntN(t.NumMethod())
	f = object.Method(i)
	name = t.Elem().Name() + "." + t.Method(i).Name
	return name, f, w.arguments(f.Type())
}

func (w *world) arguments(t reflect.Type) []reflect.Value {
	var args []reflect.Value
	for i := range t.NumIn() {
		if t.IsVariadic() && i == t.NumIn()-1 {
			for range w.IntN(4) {
				args = append(args, w.value(t.In(i).Elem()))
			}
			break
		}
		args = append(args, w.value(t.In(i)))
	}
	return args
}

// Numbers that need little memory, or more than there is.
var smallInts = []int64{0, 0, 1, 1, 2, 2, 3, 4, 6, 8, 8, 16, 33, -1, -8, math.MaxInt64, math.MinInt64, 1 << 50, math.MaxInt32, math.MinInt32}

// value draws a value of a type.
func (w *world) value(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if x, ok := w.special(t); ok {
		if x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		switch list := w.pool[t]; w.IntN(32) {
		case 0, 1: // nil
		case 2:
			v.Set(reflect.New(t.Elem()))
		default:
			if len(list) > 0 {
				v.Set(list[w.IntN(len(list))])
			}
		}
	case reflect.Func:
		if w.IntN(3) > 0 {
			v.Set(w.callback(t))
		}
	case reflect.Bool:
		v.SetBool(w.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(smallInts[w.IntN(len(smallInts))])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(smallInts[w.IntN(len(smallInts))]))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(wildFloats[w.IntN(len(wildFloats))])
	case reflect.String:
		v.SetString([]string{"", "a", "f32", "CPU", "BLAS", "general.alignment", "x\x00y", "general.name", "\xff"}[w.IntN(9)])
	case reflect.Slice:
		n := []int{0, 1, 2, 4, 32, 128}[w.IntN(6)]
		if t.Elem().Kind() == reflect.Pointer || t.Elem().Kind() == reflect.Interface {
			n = w.IntN(4)
		}
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(w.value(t.Elem()))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(w.value(t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && w.IntN(2) == 0 {
				v.Field(i).Set(w.value(t.Field(i).Type))
			}
		}
	}
	return v
}

// special draws a value of a type whose kind does not say enough; nil is the type's zero value.
func (w *world) special(t reflect.Type) (x any, ok bool) {
	switch t {
	case reflect.TypeFor[ggml.Type]():
		return ggml.Type(w.Int64N(50) - 2), true
	case reflect.TypeFor[context.Context]():
		return w.anyContext(), true
	case reflect.TypeFor[io.Writer]():
		return io.Discard, true
	case reflect.TypeFor[io.ReaderAt]():
		return bytes.NewReader(w.junk(200)), true
	case reflect.TypeFor[any]():
		return []any{int32(1), "text", []string{"a", ""}, 3.5, []float32{1}, struct{}{}, -1, true, []any{}}[w.IntN(9)], true
	case reflect.TypeFor[*slog.Logger]():
		return slog.New(slog.DiscardHandler), true
	case reflect.TypeFor[*rand.Rand](): // this package does not check its zero value
		if w.IntN(4) == 0 {
			return nil, true
		}
		return rand.New(rand.NewPCG(w.Uint64(), 0)), true
	}
	return nil, false
}

func (w *world) anyContext() context.Context {
	switch w.IntN(5) {
	case 0:
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
		time.AfterFunc(time.Second, cancel)
		return ctx
	}
	return context.Background()
}

var errWanted = errors.New("a callback failed")

// callback returns a function of a type that returns zero values, other values, or panics. Goroutines may call
// it, so it draws no random numbers.
func (w *world) callback(t reflect.Type) reflect.Value {
	mode := w.IntN(3)
	return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
		if mode == 2 {
			panic(errWanted)
		}
		var results []reflect.Value
		for i := range t.NumOut() {
			r := reflect.New(t.Out(i)).Elem()
			switch {
			case mode == 0:
			case t.Out(i) == reflect.TypeFor[error]():
				r.Set(reflect.ValueOf(errWanted))
			case t.Out(i).Kind() == reflect.Bool:
				r.SetBool(true)
			}
			results = append(results, r)
		}
		return results
	})
}
