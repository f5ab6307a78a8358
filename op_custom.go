package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A CustomFunc computes the tensor dst in Go from its operands src, in the order given to the op.
// In each compute of the graph, all threads of the CPU backend call it concurrently; each worker
// fills its own share of dst, for example by [Worker.Share]. dst and src are valid until the
// function returns.
//
// An error, or a panic (as a [*PanicError]), becomes the error of the compute: running calls
// finish, and nothing more is computed. The function may use this package, also to compute on
// another backend. Using an object that its own computation needs until its end returns [ErrBusy],
// because the call would wait for itself: the graph (to change it), the backends and their thread
// pools, the scheduler or optimizer, and the allocator of the graph. The function must not wait for
// a goroutine that uses these, and must not end its own goroutine by [runtime.Goexit] (as FailNow
// of a test does).
//
// It lives as long as the context of the op. C: ggml_custom_op_t.
type CustomFunc func(worker Worker, dst CustomTensor, src ...CustomTensor) error

// A Worker is one of Count threads that compute a tensor together; Index counts from 0.
type Worker struct{ Index, Count int }

// Share returns the worker's range [from, to) of n items, for example rows. The ranges of all
// workers cover the items and have about the same size; they may be empty. The zero Worker works
// alone.
func (w Worker) Share(n int64) (from, to int64) {
	w.Count = max(1, w.Count)
	each, rest := n/int64(w.Count), n%int64(w.Count)
	i := int64(w.Index)
	from = i*each + min(i, rest)
	to = from + each
	if i < rest {
		to++
	}
	return from, to
}

// A CustomTensor is the view of a tensor given to a [CustomFunc]. [CustomRow] and [CustomSlice]
// return its elements.
type CustomTensor struct {
	Type   Type
	Shape  [MaxDims]int64 // [ne0, ne1, ne2, ne3]
	Stride [MaxDims]int64 // bytes between neighbours in each dimension
	data   unsafe.Pointer
	layout customLayout // layout of data
}

// A customLayout is the true type, shape and strides of the memory, whatever a caller stores in the
// fields of a [CustomTensor].
type customLayout struct {
	typ           Type
	shape, stride [MaxDims]int64
}

func (t CustomTensor) mustBeAsGiven() {
	if t.layout != (customLayout{t.Type, t.Shape, t.Stride}) {
		panic("the type, shape or strides of the tensor are not those that the function got")
	}
}

// NumElements returns the product of the sizes.
func (t CustomTensor) NumElements() int64 { return t.Shape[0] * t.NumRows() }

// NumRows returns the number of rows of ne0 elements.
func (t CustomTensor) NumRows() int64 { return t.Shape[1] * t.Shape[2] * t.Shape[3] }

// RowBytes returns the raw data of row i, counted over dimensions 1, 2 and 3, for quantised types
// too. It panics if i is out of range, if the elements of a row are not adjacent, or if type, shape
// or strides were changed.
func (t CustomTensor) RowBytes(i int64) []byte {
	if i < 0 || i >= t.NumRows() {
		panic(fmt.Sprintf("row %d of a tensor of %d rows", i, t.NumRows()))
	}
	if t.Stride[0] != t.Type.BlockBytes() {
		panic("the elements of a row are not adjacent; call Cont on the operand")
	}
	t.mustBeAsGiven()
	i1, i := i%t.Shape[1], i/t.Shape[1]
	i2, i3 := i%t.Shape[2], i/t.Shape[2]
	row := unsafe.Add(t.data, i1*t.Stride[1]+i2*t.Stride[2]+i3*t.Stride[3])
	return unsafe.Slice((*byte)(row), t.Type.RowSize(t.Shape[0]))
}

// CustomRow returns row i of a tensor, counted over dimensions 1, 2 and 3, in place. It panics if
// the tensor's type is not T's, and in the cases of [CustomTensor.RowBytes]; a panic is an error of
// the compute.
func CustomRow[T Element](t CustomTensor, i int64) []T {
	t.mustHold(elementType[T]())
	row := t.RowBytes(i)
	return unsafe.Slice((*T)(unsafe.Pointer(&row[0])), t.Shape[0])
}

// CustomSlice returns all elements of a tensor in order, in place. It panics if the tensor's type
// is not T's, or if there are gaps between its elements; a panic is an error of the compute.
func CustomSlice[T Element](t CustomTensor) []T {
	t.mustHold(elementType[T]())
	stride := t.Type.BlockBytes()
	for d, n := range t.Shape {
		if n > 1 && t.Stride[d] != stride {
			panic("the elements are not contiguous; use CustomRow, or call Cont on the operand")
		}
		stride *= n
	}
	t.mustBeAsGiven()
	return unsafe.Slice((*T)(t.data), t.NumElements())
}

func (t CustomTensor) mustHold(want Type) {
	if t.Type != want {
		panic(fmt.Sprintf("the tensor has type %v, the slice holds %v", t.Type, want))
	}
}

// customTensor fails if Go cannot read the memory.
func customTensor(t *C.struct_ggml_tensor) (CustomTensor, error) {
	v := CustomTensor{Type: Type(t._type), data: t.data}
	for d := range MaxDims {
		v.Shape[d], v.Stride[d] = int64(t.ne[d]), int64(t.nb[d])
	}
	v.layout = customLayout{v.Type, v.Shape, v.Stride}
	if v.data == nil || !bool(C.goggml_on_host(t)) {
		return v, fmt.Errorf("a tensor is not in system memory: %w", ErrNotAllocated)
	}
	return v, nil
}

// MapCustom computes a tensor of a's type and shape by a Go function from one to three operands: y
// = f(a, …). At most threads threads call f; 0 means all threads of the backend. The operands may
// have any type, shape and layout; the result is contiguous. Only the CPU runs it, and a
// [Scheduler] puts it there. It has no backward. C: ggml_map_custom1, ggml_map_custom2,
// ggml_map_custom3.
func (c *Context) MapCustom(f CustomFunc, threads int, a *Tensor, more ...*Tensor) *Tensor {
	return c.mapCustom("map_custom", false, f, threads, a, more)
}

// MapCustomInPlace is [Context.MapCustom], in place: f overwrites a, and the result is a view of
// it. It has no backward. C: ggml_map_custom1_inplace, ggml_map_custom2_inplace,
// ggml_map_custom3_inplace.
func (c *Context) MapCustomInPlace(f CustomFunc, threads int, a *Tensor, more ...*Tensor) *Tensor {
	return c.mapCustom("map_custom_inplace", true, f, threads, a, more)
}

func (c *Context) mapCustom(name string, inplace bool, f CustomFunc, threads int, a *Tensor, more []*Tensor) *Tensor {
	op := c.beginCustom(name, append([]*Tensor{a}, more...))
	op.require(len(more) <= 2, "it takes 1 to 3 operands; Custom takes more")
	if inplace {
		op.writable("a", a)
	} else {
		op.require(a == nil || !a.cutsBlocks(), "the blocks of a's type do not lie along its rows, and the result would have a's shape; use Custom")
	}
	return op.custom(f, threads, func(x **C.struct_ggml_tensor, n, tasks C.int, id C.uintptr_t) C.goggml_tensor {
		return C.goggml_op_map_custom(op.arena, x, n, C.bool(inplace), tasks, id)
	})
}

// maxCustom is the number of operands that a tensor and its builder can hold.
const maxCustom = C.GGML_MAX_SRC - 1

// CustomOptions are the settings of [Context.Custom].
type CustomOptions struct {
	Func    CustomFunc
	Threads int     // maximum number of threads that call Func; 0 means all of the backend
	Type    Type    // type of the result
	Shape   []int64 // shape of the result: [ne0, ne1, …]
}

// Custom computes a tensor of the type and shape of the options by a Go function of zero to nine
// operands. The operands may have any type, shape and layout; the result is contiguous. Only the
// CPU runs it, and a [Scheduler] puts it there. It has no backward. C: ggml_custom_4d.
func (c *Context) Custom(options CustomOptions, src ...*Tensor) *Tensor {
	t, shape := options.Type, options.Shape
	op := c.beginCustom("custom", src)
	op.describe = []Operand{{Name: "result", Type: t, Shape: shape}}
	op.checkShape(t, shape)
	ne := [4]C.int64_t{1, 1, 1, 1}
	for i := range min(len(shape), 4) {
		ne[i] = C.int64_t(shape[i])
	}
	return op.custom(options.Func, options.Threads, func(x **C.struct_ggml_tensor, n, tasks C.int, id C.uintptr_t) C.goggml_tensor {
		return C.goggml_op_custom(op.arena, C.goggml_type(t), &ne[0], x, n, tasks, id)
	})
}

// CustomInPlace is [Context.Custom], in place: f overwrites a, its first operand, and the result is
// a view of it. Up to eight operands follow. It has no backward. C: ggml_custom_inplace.
func (c *Context) CustomInPlace(f CustomFunc, threads int, a *Tensor, more ...*Tensor) *Tensor {
	op := c.beginCustom("custom_inplace", append([]*Tensor{a}, more...))
	op.writable("a", a)
	return op.custom(f, threads, func(x **C.struct_ggml_tensor, n, tasks C.int, id C.uintptr_t) C.goggml_tensor {
		return C.goggml_op_custom_inplace(op.arena, x, n, tasks, id)
	})
}

// beginCustom begins an op of any number of operands. If there are too many, the error lists those
// that fit.
func (c *Context) beginCustom(name string, operands []*Tensor) *opCall {
	op := c.begin(name, operands[:min(len(operands), maxCustom)]...)
	op.require(len(operands) <= maxCustom, "it has %d operands; at most %d fit", len(operands), maxCustom)
	return op
}

// custom builds an op that a Go function computes.
func (op *opCall) custom(f CustomFunc, threads int, build func(x **C.struct_ggml_tensor, n, tasks C.int, id C.uintptr_t) C.goggml_tensor) *Tensor {
	op.require(f != nil, "the function is nil")
	op.require(threads >= 0, "%d threads: it takes 1 or more, or 0 for all", threads)
	if op.arena == nil {
		return op.done(C.goggml_tensor{})
	}
	tasks := C.int(C.GGML_N_TASKS_MAX)
	if threads > 0 {
		tasks = C.int(min(threads, MaxThreads))
	}
	var x [maxCustom]*C.struct_ggml_tensor
	for i, t := range op.operands {
		x[i] = t.t
	}
	custom := &customOp{f: f, threads: threads}
	id := customOps.add(custom)
	r := build(&x[0], C.int(len(op.operands)), tasks, C.uintptr_t(id))
	if r.value == nil {
		customOps.remove(id)
		return op.done(r)
	}
	op.c.customIDs = append(op.c.customIDs, id)
	if op.c.customs == nil {
		op.c.customs = map[*C.struct_ggml_tensor]*customOp{}
	}
	op.c.customs[r.value] = custom
	return op.done(r)
}

// A customOp is the function of an op. Its context keeps it alive; C finds it in a table that does
// not, so that a function that refers to its context does not keep both from being collected.
type customOp struct {
	f       CustomFunc
	threads int // maximum; 0 means all

	run  atomic.Pointer[computation] // the last computation started
	runs sync.Map                    // computation of each node; copies of a graph share the function
}

var customOps callbackTable[customOp]

// runOf returns the computation that calls. A node without one belongs to a copy that ggml made for
// a comparison.
func (op *customOp) runOf(node *C.struct_ggml_tensor) *computation {
	if r, ok := op.runs.Load(node); ok {
		return r.(*computation)
	}
	return op.run.Load()
}

//export goggmlCustom
func goggmlCustom(id C.uintptr_t, dst *C.struct_ggml_tensor, worker, workers C.int, slot *C.uintptr_t) {
	op := customOps.find(uintptr(id))
	if op == nil {
		return // impossible while the context of the op is open
	}
	w := Worker{Index: int(worker), Count: int(workers)}
	if op.threads > 0 {
		w.Count = min(w.Count, op.threads)
	}
	run := op.runOf(dst)
	if w.Index >= w.Count || run.failed() {
		return
	}
	defer run.enter(slot)()
	if err := protect(func() error { return op.call(w, dst) }); err != nil {
		run.fail(op, err)
	}
}

func (op *customOp) call(w Worker, dst *C.struct_ggml_tensor) error {
	y, err := customTensor(dst)
	if err != nil {
		return err
	}
	var src []CustomTensor
	for _, s := range dst.src {
		if s == nil {
			break
		}
		x, err := customTensor(s)
		if err != nil {
			return err
		}
		src = append(src, x)
	}
	return op.f(w, y, src...)
}

type customNode struct {
	op   *customOp
	node *C.struct_ggml_tensor
}

type customFailure struct {
	op  *customOp
	err error
}

// startCustom prepares the functions of the graph's nodes. The caller retains the graph.
func (c *computation) startCustom() {
	c.nodes = c.graph.customNodes()
	if len(c.nodes) == 0 && !c.calls {
		return
	}
	c.id = computations.add(c)
	for _, n := range c.nodes {
		n.op.run.Store(c)
		n.op.runs.Store(n.node, c)
	}
}

// customNodes are the nodes of a graph that Go functions compute. The search continues where the
// last one ended, as long as the graph only gains nodes.
type customNodes struct {
	graph *C.struct_ggml_cgraph
	seen  C.int // number of nodes searched
	list  []customNode
}

func (g *Graph) customNodes() []customNode {
	k, n := &g.customs, C.ggml_graph_n_nodes(g.g)
	if k.graph == g.g && k.seen == n {
		return k.list
	}
	*k = customNodes{graph: g.g, seen: n}
	var i C.int
	for node := C.goggml_graph_next_custom(g.g, &i); node != nil; node = C.goggml_graph_next_custom(g.g, &i) {
		if op := g.customOp(node); op != nil { // otherwise the op is written in C
			k.list = append(k.list, customNode{op, node})
		}
	}
	return k.list
}

func (g *Graph) customOp(node *C.struct_ggml_tensor) *customOp {
	for _, c := range g.ctx.withDependencies() {
		c.mu.Lock()
		op := c.customs[node]
		c.mu.Unlock()
		if op != nil {
			return op
		}
	}
	return nil
}

func (c *computation) failed() bool { return c != nil && c.err.Load() != nil }

// fail records the first error, and stops the backends before their next op.
func (c *computation) fail(op *customOp, err error) {
	if c == nil || !c.err.CompareAndSwap(nil, &customFailure{op, err}) {
		return
	}
	for _, b := range c.backends {
		b.abort.raise()
	}
}

// endCustom returns the first error of the functions.
func (c *computation) endCustom() error {
	if c.id != 0 {
		computations.remove(c.id)
	}
	for _, n := range c.nodes {
		n.op.run.CompareAndSwap(c, nil)
		n.op.runs.CompareAndDelete(n.node, c)
	}
	f := c.err.Load()
	if f == nil {
		return nil
	}
	i := slices.IndexFunc(c.nodes, func(n customNode) bool { return n.op == f.op })
	node := c.graph.tensor(c.nodes[i].node)
	return &OpError{Op: node.Op(), Operands: []Operand{node.operand()}, Reason: f.err.Error(), Caller: callerLine(), Err: f.err}
}
