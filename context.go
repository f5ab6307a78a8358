package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goggml/ggml/internal/testhook"
)

// A Context owns tensors and graphs: their shapes and connections, not their data, which lies in a
// [Buffer]. It grows as needed. A closed context appears empty.
//
// The methods that build tensors (the ops) do not return errors. The context keeps the first error;
// the tensor returned stands for the failure and may be passed on, and every function that needs
// the graph — allocation, compute — returns the error. Err returns it at once.
//
// A Context is safe for concurrent use, but the order of its tensors is then undefined. C: struct
// ggml_context.
type Context struct {
	*contextCore
	graphs *C.goggml_arena // graphs: separate from tensors, so that tensors can be counted

	op          opCall   // the op under construction
	places      []Tensor // for the next tensors: allocating several at once is faster
	err         error
	deps        atomic.Pointer[[]*Context]          // contexts whose tensors are operands here; copied on write
	buffers     []*Buffer                           // buffers that hold data of tensors of this context
	allocations []graphAllocation                   // memory that graph allocators gave to tensors of this context
	customs     map[*C.struct_ggml_tensor]*customOp // Go functions of its custom ops
}

// A graphAllocation keeps the allocator of graph memory alive as long as the context.
type graphAllocation struct {
	memory *graphMemory
	owner  any
}

// contextCore is the part of a context that buffers refer to. It has no reference to the buffers:
// an object that its own clean-up can reach is never collected.
type contextCore struct {
	h     *handle
	arena *C.goggml_arena // tensors
	mu    sync.Mutex      // guards the arena and the fields of Context

	customIDs []uintptr // numbers by which C finds the Go functions of its tensors
	constants []*handle // buffers that live as long as the context
}

// NewContext makes an empty context. If memory is short, Err returns [ErrOutOfMemory] from the
// start. C: ggml_init.
func NewContext() *Context {
	if testhook.NoMemory {
		return newContext(nil, nil)
	}
	return newContext(C.goggml_arena_new(), C.goggml_arena_new())
}

// newContext takes ownership of the arenas; a nil arena means that its allocation failed.
func newContext(arena, graphs *C.goggml_arena) *Context {
	c := &Context{contextCore: &contextCore{arena: arena}, graphs: graphs}
	core := c.contextCore
	c.h, _ = newHandle("context", func() {
		C.goggml_arena_free(graphs)
		C.goggml_arena_free(core.arena) // for a copied graph, the arena has been replaced by then
		customOps.remove(core.customIDs...)
		for _, h := range core.constants {
			h.close()
		}
	})
	if arena == nil || graphs == nil {
		c.err = callError(ErrOutOfMemory, "there is no memory for a context")
		c.h.close()
		return c
	}
	closeOnCollect(c, c.h)
	return c
}

// zeroContext stands for nil and for a zero Context: every op in it fails.
var zeroContext = &Context{contextCore: &contextCore{}, err: fmt.Errorf("ggml: %w", ErrZeroValue)}

// made returns the context, or zeroContext if NewContext did not make it.
func (c *Context) made() *Context {
	if c == nil || c.contextCore == nil {
		return zeroContext
	}
	return c
}

// Close frees the context with all its tensors and graphs when the last call and the last allocator
// stop using them. From now on their use fails with [ErrClosed]. Close never fails. C: ggml_free.
func (c *Context) Close() error {
	if c = c.made(); c.h.close() {
		c.mu.Lock()
		constants := c.constants
		c.mu.Unlock()
		for _, h := range constants { // allocators do not retain constants
			h.close()
		}
	}
	return nil
}

// Err returns the first error of an op in this context, or nil.
func (c *Context) Err() error {
	c = c.made()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// place returns storage for a new Tensor of this context. The caller holds c.mu.
func (c *Context) place() *Tensor {
	if len(c.places) == 0 {
		c.places = make([]Tensor, 16)
	}
	t := &c.places[0]
	c.places = c.places[1:]
	return t
}

func (c *Context) fail(err error) {
	c = c.made()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Tensors iterates over the tensors in order of creation. C: ggml_get_first_tensor,
// ggml_get_next_tensor.
func (c *Context) Tensors() iter.Seq[*Tensor] {
	c = c.made()
	return func(yield func(*Tensor) bool) {
		if c.h.acquire() != nil {
			return
		}
		defer c.h.release()
		for _, t := range c.tensorList() {
			if !yield(t) {
				return
			}
		}
	}
}

func (c *Context) tensorList() []*Tensor {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*Tensor
	var chunk C.int
	for t := C.goggml_arena_first(c.arena, &chunk); t != nil; t = C.goggml_arena_next(c.arena, &chunk, t) {
		list = append(list, newTensor(c, t))
	}
	return list
}

// Params iterates over the tensors marked by [Tensor.SetParam], in order of creation.
func (c *Context) Params() iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		for t := range c.Tensors() {
			if t.t.flags&C.GGML_TENSOR_FLAG_PARAM != 0 && !yield(t) {
				return
			}
		}
	}
}

// tensorBound returns an upper bound of the number of tensors.
func (c *Context) tensorBound() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(C.goggml_arena_tensors(c.arena))
}

// Tensor finds a tensor by name. C: ggml_get_tensor.
func (c *Context) Tensor(name string) (*Tensor, bool) {
	for t := range c.Tensors() {
		if t.Name() == name {
			return t, true
		}
	}
	return nil, false
}

// addDep records that tensors of d are operands here. The caller holds c.mu.
func (c *Context) addDep(d *Context) {
	deps := c.dependencies()
	if !containsContext(deps, d) {
		more := append(slices.Clone(deps), d)
		c.deps.Store(&more)
	}
}

func (c *Context) dependencies() []*Context {
	if deps := c.deps.Load(); deps != nil {
		return *deps
	}
	return nil
}

// withDependencies lists the context and all contexts that its tensors depend on.
func (c *Context) withDependencies() []*Context {
	all := []*Context{c.made()}
	for i := 0; i < len(all); i++ {
		for _, d := range all[i].dependencies() {
			if !containsContext(all, d) {
				all = append(all, d)
			}
		}
	}
	return all
}

func containsContext(list []*Context, c *Context) bool {
	for _, have := range list {
		if have == c {
			return true
		}
	}
	return false
}

// retainChecked is retain for a use of the graph: it also fails if an op of one of the contexts has
// failed.
func retainChecked(contexts []*Context) (release func(), err error) {
	for _, c := range contexts {
		if err := c.Err(); err != nil {
			return nil, err
		}
	}
	return retain(contexts)
}

// retain prevents the contexts, and the data of their tensors, from being freed until release. It
// fails if one of them is closed.
func retain(contexts []*Context) (release func(), err error) {
	for {
		var refs references
		for _, c := range contexts {
			if err = refs.addContext(c); err != nil {
				break
			}
		}
		if err == nil {
			return refs.release, nil
		}
		refs.release()
		transition, ok := err.(*transitionError)
		if !ok {
			return nil, err
		}
		// Nothing is retained while it waits, to rule out a deadlock.
		transition.memory.waitStable()
	}
}

// references lists the objects retained by one call.
type references struct {
	handles []*handle
	memory  []*graphMemory
}

func (r *references) release() {
	for _, m := range r.memory {
		m.release()
	}
	for _, h := range r.handles {
		h.release()
	}
}

func (r *references) add(h *handle) error {
	if err := h.acquire(); err != nil {
		return err
	}
	r.handles = append(r.handles, h)
	return nil
}

// addContext retains the context and all objects that keep its data.
func (r *references) addContext(c *Context) error {
	if err := r.add(c.h); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.buffers {
		if b.freed.Load() {
			continue // its tensors are unallocated by now
		}
		if err := r.add(b.h); err != nil {
			return err
		}
	}
	for _, a := range c.allocations {
		acquired, err := a.memory.acquire()
		if err != nil {
			return err
		}
		if acquired {
			r.memory = append(r.memory, a.memory)
		}
	}
	return nil
}

// addAllocation records that an allocator, the owner, gives memory to tensors of c.
func (c *Context) addAllocation(m *graphMemory, owner any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := []graphAllocation{{m, owner}}
	for _, a := range c.allocations {
		if !a.memory.freed() {
			current = append(current, a)
		}
	}
	c.allocations = current
}

// uses reports whether tensors of c lie in the memory of a graph.
func (c *Context) uses(m *graphMemory) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.allocations, func(a graphAllocation) bool { return a.memory == m })
}

// attach records that tensors of c lie in the buffer.
func (c *Context) attach(b *Buffer) {
	b.attached.add(c.contextCore)
	c.mu.Lock()
	defer c.mu.Unlock()
	open := []*Buffer{b}
	for _, have := range c.buffers {
		if have != b && !have.freed.Load() {
			open = append(open, have)
		}
	}
	c.buffers = open
}

// detach makes the context's tensors in the buffer unallocated, before the buffer is freed.
func (c *contextCore) detach(b C.ggml_backend_buffer_t) {
	c.withRef(func() { C.goggml_arena_detach(c.arena, b) })
}

// withRef runs f with the context retained and locked. If the context is closed, f does not run.
func (c *contextCore) withRef(f func()) {
	if c.h.acquire() != nil {
		return
	}
	defer c.h.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// MemoryUsed returns the bytes that the descriptions of tensors and graphs take; their data lies in
// buffers. C: ggml_used_mem.
func (c *Context) MemoryUsed() int64 {
	var n int64
	c = c.made()
	c.withRef(func() { n = int64(C.goggml_arena_used(c.arena) + C.goggml_arena_used(c.graphs)) })
	return n
}

// MemoryAllocated returns the bytes reserved for MemoryUsed, which grow in steps. C:
// ggml_get_mem_size.
func (c *Context) MemoryAllocated() int64 {
	var n int64
	c = c.made()
	c.withRef(func() { n = int64(c.arena.allocated + c.graphs.allocated) })
	return n
}

// MaxTensorBytes returns the size in bytes of the largest tensor of the context. C:
// ggml_get_max_tensor_size.
func (c *Context) MaxTensorBytes() int64 {
	var largest int64
	for t := range c.Tensors() {
		largest = max(largest, t.NumBytes())
	}
	return largest
}

// NewTensor makes a tensor of the given shape [ne0, ne1, …] of one to four
// dimensions, ne0 fastest. It has no data until it is allocated.
//
// Sizes are at least 1, and ne0 is a multiple of the type's block size.
// C: ggml_new_tensor and its 1d to 4d forms.
func (c *Context) NewTensor(t Type, shape ...int64) *Tensor {
	op := c.begin("new_tensor")
	op.describe = []Operand{{Name: "result", Type: t, Shape: shape}}
	op.checkShape(t, shape)
	ne := [4]C.int64_t{1, 1, 1, 1}
	for i := range min(len(shape), 4) {
		ne[i] = C.int64_t(shape[i])
	}
	return op.done(C.goggml_op_new_tensor(op.arena, C.goggml_type(t), C.int(len(shape)), &ne[0]))
}

// NewTensorLike makes a contiguous tensor of the type and shape of another. The shape must be valid
// for [Context.NewTensor], which the shape of a transposed quantised tensor may not be. C:
// ggml_dup_tensor.
func (c *Context) NewTensorLike(t *Tensor) *Tensor {
	op := c.begin("dup_tensor", t)
	if op.arena != nil {
		op.checkShape(t.typ, t.ne[:])
	}
	return op.done(C.goggml_op_dup_tensor(op.arena, t.ptr()))
}

// Alias makes a view of a whole tensor, with its shape and strides. Unlike [Context.View] it is no
// op: nothing is computed for it, and gradients end at it. C: ggml_view_tensor.
func (c *Context) Alias(t *Tensor) *Tensor {
	op := c.begin("view_tensor", t)
	r := C.goggml_op_view_tensor(op.arena, t.ptr())
	if r.value != nil {
		r.value.src[0] = r.value.view_src // without it, a graph would omit the aliased tensor
	}
	return op.done(r)
}
