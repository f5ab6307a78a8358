package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/goggml/ggml"
)

// maxBytes limits the memory of a computation, including guards.
const maxBytes = 2 << 20

// Patterns for the memory before a computation and around the tensors: bytes of ordinary numbers, so that they
// show in results.
var patterns = []byte{0x3f, 0xc1}

// compute computes the program's graph in several ways, and compares the results.
func (p *program) compute() error {
	outputs := p.outputs()
	if len(outputs) == 0 {
		return nil
	}
	g := p.c.NewGraph(outputs...)
	if p.IntN(30) == 0 {
		g.Expand(p.wildTensor())
	}
	return p.evaluate(g, outputs)
}

// outputs returns the results of all ops, including those that other ops read.
func (p *program) outputs() []*ggml.Tensor {
	var outputs []*ggml.Tensor
	for _, t := range p.pool {
		if t.Context() == p.c && t.Op() != "none" {
			outputs = append(outputs, t)
		}
	}
	return outputs
}

func (p *program) evaluate(g *ggml.Graph, outputs []*ggml.Tensor) error {
	bytes := int64(0)
	for c := range slices.Values([]*ggml.Context{p.leaves, p.c}) {
		for t := range c.Tensors() {
			if n := t.NumBytes(); n > maxBytes || n < 0 {
				bytes = maxBytes + 1
			} else {
				bytes += n
			}
		}
	}
	if p.huge || bytes > maxBytes {
		p.note("too large to compute: %d bytes", bytes)
		return p.reserve(g)
	}
	first, err := p.spread(g, p.machine.backends[0], patterns[0])
	if err != nil || first == nil {
		return err
	}
	p.machine.Stats.Computed++
	for name := range p.used {
		p.machine.Stats.Accepted[name]++
	}
	p.note("again with %d threads, other memory", maxThreads)
	second, err := p.spread(g, p.machine.backends[1+p.IntN(maxThreads-1)], patterns[1])
	if err != nil {
		return err
	}
	if second == nil {
		return errors.New("the second compute failed, the first did not")
	}
	if err := p.agree(first, second); err != nil {
		return err
	}
	return p.packed(g, outputs)
}

// reserve plans the memory of a graph that is too large to compute.
func (p *program) reserve(g *ggml.Graph) error {
	a, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
	if err != nil {
		return err
	}
	defer a.Close()
	err = a.Reserve(g)
	p.note("reserve: %v", err)
	return p.harmless(err)
}

// harmless returns only the faults among errors: failed assertions during a computation.
func (p *program) harmless(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ggml.ErrBroken):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it takes too long: %w", err)
	case reason(err) == "":
		return fmt.Errorf("an error without a reason: %w", err)
	}
	p.note("refused: %v", err)
	p.machine.Stats.failed(err)
	return nil
}

func reason(err error) string {
	var op *ggml.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Reason
	}
	return err.Error()
}

func (p *program) run(compute func(ctx context.Context, g *ggml.Graph) error, g *ggml.Graph) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return compute(ctx, g)
}

// A state is the data of all tensors after a computation.
type state struct {
	tensors []*ggml.Tensor
	data    [][]byte
}

// spread computes with separate memory for each tensor, which it fills with a pattern first; it returns nil if
// the computation was refused.
func (p *program) spread(g *ggml.Graph, b *ggml.Backend, pattern byte) (*state, error) {
	for _, c := range []*ggml.Context{p.leaves, p.c} {
		buffers, err := c.Allocate(ggml.CPUBufferType())
		if err != nil {
			return nil, p.harmless(err)
		}
		defer buffers.Close()
		if err := buffers.Clear(pattern); err != nil {
			return nil, err
		}
	}
	if err := p.write(); err != nil {
		return nil, err
	}
	if err := p.reset(g); err != nil {
		return nil, p.harmless(err)
	}
	p.note("compute")
	if err := p.run(b.Compute, g); err != nil {
		return nil, p.harmless(err)
	}
	for _, t := range p.guards {
		data, err := content(t)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(data, func(x byte) bool { return x != pattern }); i >= 0 {
			return nil, fmt.Errorf("something wrote outside of its tensor: byte %d of a guard (context of ops: %v)", i, t.Context() == p.c)
		}
	}
	s := &state{}
	for t := range p.defined(g) {
		if t.IsView() || p.training && t.Op() == "rms_norm" { // the next op may be fused with it
			continue
		}
		data, err := content(t)
		if err != nil {
			return nil, err
		}
		s.tensors, s.data = append(s.tensors, t), append(s.data, data)
	}
	return s, nil
}

// defined iterates over the tensors that have data after a computation.
func (p *program) defined(g *ggml.Graph) iter.Seq[*ggml.Tensor] {
	return func(yield func(*ggml.Tensor) bool) {
		for _, l := range p.data {
			if !yield(l.t) {
				return
			}
		}
		for t := range g.Nodes() {
			if !yield(t) {
				return
			}
		}
	}
}

func content(t *ggml.Tensor) ([]byte, error) {
	data := make([]byte, t.NumBytes())
	_, err := t.ReadAt(data, 0)
	return data, err
}

// write fills the leaves that are allocated.
func (p *program) write() error {
	for _, l := range p.data {
		if !l.t.IsAllocated() {
			continue
		}
		if _, err := l.t.WriteAt(l.data, 0); err != nil {
			return err
		}
	}
	return nil
}

// Ops whose threads add partial sums: rounding depends on the number of threads.
var summedByThread = []string{"CrossEntropyLoss"}

// agree compares the states of two computations.
func (p *program) agree(a, b *state) error {
	if p.aliased {
		return nil
	}
	for _, name := range summedByThread {
		if p.used[name] {
			return nil
		}
	}
	for i, t := range a.tensors {
		if hasNaN(t.Type(), a.data[i]) {
			return nil // the bits of NaN and its place in a sort may differ
		}
	}
	for i, t := range a.tensors {
		if j := firstDifference(a.data[i], b.data[i]); j >= 0 {
			return fmt.Errorf("%v (%s%v) differs with the number of threads, or with the memory around: byte %d is %#x and %#x", t, t.Op(), dims(t), j, a.data[i][j], b.data[i][j])
		}
	}
	return nil
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// hasNaN reports whether values are not finite.
func hasNaN(t ggml.Type, data []byte) bool {
	switch t {
	case ggml.F32:
		for i := 0; i < len(data); i += 4 {
			x := float64(math.Float32frombits(binary.NativeEndian.Uint32(data[i:])))
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return true
			}
		}
	case ggml.F16:
		for i := 0; i < len(data); i += 2 {
			if binary.NativeEndian.Uint16(data[i:])&0x7c00 == 0x7c00 {
				return true
			}
		}
	case ggml.BF16:
		for i := 0; i < len(data); i += 2 {
			if binary.NativeEndian.Uint16(data[i:])&0x7f80 == 0x7f80 {
				return true
			}
		}
	}
	return false
}

// packed computes with memory from a graph allocator.
func (p *program) packed(g *ggml.Graph, outputs []*ggml.Tensor) error {
	buffers, err := p.leaves.Allocate(ggml.CPUBufferType())
	if err != nil {
		return p.harmless(err)
	}
	defer buffers.Close()
	if err := p.write(); err != nil {
		return err
	}
	if p.IntN(30) == 0 {
		p.note("the memory of the leaves is freed early")
		buffers.Close()
	}
	threads := p.IntN(maxThreads)
	alloc, compute := p.machine.alloc.Allocate, p.machine.backends[threads].Compute
	switch {
	case p.IntN(3) == 0:
		s := p.machine.scheds[threads]
		alloc, compute = s.Allocate, s.Compute
	case p.machine.mixed != nil && p.IntN(3) == 0:
		alloc, compute = p.machine.mixed.Allocate, p.machine.mixed.Compute
	}
	p.note("alloc")
	if err := alloc(g); err != nil {
		return p.harmless(err)
	}
	if err := p.write(); err != nil { // an allocator may reuse the memory of leaves
		return p.harmless(err)
	}
	if err := p.reset(g); err != nil {
		return p.harmless(err)
	}
	p.note("compute with an allocator, %d threads", threads+1)
	if err := p.run(compute, g); err != nil {
		return p.harmless(err)
	}
	for _, t := range outputs {
		if _, err := content(t); err != nil {
			return p.harmless(err)
		}
	}
	return nil
}
