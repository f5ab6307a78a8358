package fuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// Calls are calls of all ops with operands that the ops accept. Those of package kernels, whose operands are optional, are
// called several times.
type Calls struct {
	Leaves, Context *ggml.Context // contexts of the operands, without memory, and of the results
	Results         []*ggml.Tensor
	program         *program
}

// NewCalls draws the calls of a seed.
func NewCalls(m *Machine, seed uint64) (*Calls, error) {
	p := &program{Rand: rand.New(rand.NewPCG(seed, 11)), machine: m, used: map[string]bool{}, simple: true, flat: true}
	p.open()
	p.width = sweepWidth
	c := &Calls{Leaves: p.leaves, Context: p.c, program: p}
	for _, name := range opNames {
		calls := 1
		switch {
		case strings.HasPrefix(name, "CausalAttentionBF16") && !kernels.HasBF16Attention():
			continue
		case kernelFunctions[name] != nil:
			calls = 4
		}
		for range calls {
			results := p.accepted(name)
			if results == nil {
				c.Close()
				return nil, fmt.Errorf("no arguments for %s", name)
			}
			c.Results = append(c.Results, results...)
		}
	}
	return c, nil
}

// accepted draws a call that an op accepts; nil if many attempts fail.
func (p *program) accepted(name string) []*ggml.Tensor {
	o, _ := opOf(name)
	for range 100 {
		args := p.arguments(o)
		p.invoke(p.trial, o, args)
		if p.trial.Err() == nil && p.leaves.Err() == nil {
			return p.invoke(p.c, o, args)
		}
		p.trial.Close()
		p.trial = ggml.NewContext()
	}
	return nil
}

// Write sets the data of the operands that are allocated.
func (c *Calls) Write() error { return c.program.write() }

// Close closes the contexts.
func (c *Calls) Close() { c.program.close() }
