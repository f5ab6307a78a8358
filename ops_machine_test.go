package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// A machine computes graphs on one device, with the CPU behind it for what the
// device does not compute.
type machine struct {
	name     string
	device   *ggml.Device
	threads  int // of the CPU
	share    int // it computes one in that many of the runs of a case, of those it can
	backends []*ggml.Backend
	sched    *ggml.Scheduler
}

var allMachines struct {
	sync.Once
	list   []*machine
	server *rpcServer
	err    error
}

// machines gives the CPU with one thread, in which an assertion in a compute is
// an error of the test, with several, each other device there is, and one that an
// RPC server lends.
func machines(t testing.TB) []*machine {
	allMachines.Do(func() {
		list := []*machine{{device: cpu(t), threads: 1, share: 1}, {device: cpu(t), threads: 3, share: 3}}
		devices, err := ggml.Devices()
		require.NoError(t, err)
		for _, d := range devices {
			others := d.Type() == ggml.MetaDevice || strings.HasPrefix(d.Registry().Name(), "RPC") // tests that run now
			if d.Type() != ggml.CPU && !others {
				list = append(list, &machine{device: d, threads: 1, share: 5})
			}
		}
		list = append(list, &machine{device: lent(t), threads: 1, share: 5})
		for _, m := range list {
			m.name = m.device.Name()
			if m.threads > 1 {
				m.name += fmt.Sprintf("_%d_threads", m.threads)
			}
			if err := m.open(); err != nil {
				allMachines.err = err
				continue
			}
			allMachines.list = append(allMachines.list, m)
		}
	})
	require.NoError(t, allMachines.err)
	return allMachines.list
}

// lent starts a server and gives its device, which other tests do not see.
func lent(t testing.TB) *ggml.Device {
	allMachines.server = newServer(t)
	r, err := ggml.AddRPCServer(allMachines.server.endpoint)
	require.NoError(t, err)
	device := r.Devices()[0]
	require.NoError(t, r.Unload())
	return device
}

func (m *machine) open() error {
	m.backends = nil
	if m.device.Type() != ggml.CPU {
		b, err := m.device.NewBackend()
		if err != nil {
			return err
		}
		m.backends = append(m.backends, b)
	}
	cpu, err := ggml.NewCPUBackend(m.threads)
	if err != nil {
		return err
	}
	m.backends = append(m.backends, cpu)
	m.sched, err = ggml.NewScheduler(ggml.SchedulerOptions{}, m.backends...)
	return err
}

func (m *machine) close() {
	m.sched.Close()
	for _, b := range m.backends {
		b.Close()
	}
}

func closeMachines() {
	for _, m := range allMachines.list {
		m.close()
	}
	if allMachines.server != nil {
		allMachines.server.kill()
	}
}

// takes tells whether the device computes any of the graph.
func (m *machine) takes(g *ggml.Graph) bool {
	if m.device.Type() == ggml.CPU {
		return true
	}
	for n := range g.Nodes() {
		// RPC claims all ops, also those that are functions of this process.
		if computed(n) && n.Op() != "custom" && m.device.SupportsOp(n) {
			return true
		}
	}
	return false
}

// computed tells whether a node is more than another look at its operand.
func computed(n *ggml.Tensor) bool {
	switch n.Op() {
	case "none", "reshape", "view", "permute", "transpose":
		return false
	}
	return true
}

// A program is an op on operands that lie in a context of their own.
type program struct {
	leaves, c *ggml.Context
	x         []*ggml.Tensor
	y         *ggml.Tensor
}

func newProgram(args []arg, build func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) *program {
	p := &program{leaves: ggml.NewContext(), c: ggml.NewContext()}
	for _, a := range args {
		p.x = append(p.x, a.place(p.leaves))
	}
	p.y = build(p.c, p.x)
	return p
}

func (p *program) close() {
	p.c.Close()
	p.leaves.Close()
}

// A result is what an op has computed.
type result struct {
	values []float32
	shape  [4]int64
	typ    ggml.Type
}

// eval computes an op with its operands in the memory of the device; ok tells
// whether that takes any part in it.
func (m *machine) eval(t testing.TB, args []arg, build func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) (r result, ok bool) {
	p := newProgram(args, build)
	defer p.close()
	require.NoError(t, p.leaves.Err())
	require.NoError(t, p.c.Err(), describe(args))
	g := p.c.NewGraph(p.y)
	if !m.takes(g) {
		return r, false
	}
	buffers, err := p.leaves.Allocate(m.device.BufferType())
	require.NoError(t, err)
	defer buffers.Close()
	for i, a := range args {
		a.write(t, p.x[i])
	}
	m.compute(t, g)
	for i := range r.shape {
		r.shape[i] = p.y.Dim(i)
	}
	r.values, r.typ = numbers(t, p.y), p.y.Type()
	return r, true
}

func (m *machine) compute(t testing.TB, g *ggml.Graph) {
	t.Helper()
	require.NoError(t, g.Context().Err())
	require.NoError(t, m.sched.Alloc(g))
	err := m.sched.Compute(context.Background(), g)
	if errors.Is(err, ggml.ErrBroken) {
		m.close() // one failure shall not make all other tests fail
		require.NoError(t, m.open())
	}
	require.NoError(t, err)
}

// Every device computes at least a product that is large enough for it.
func TestEveryDeviceTakesPart(t *testing.T) {
	d := &draw{Rand: rng(3), typ: ggml.F32, layouts: denseOnly}
	for _, m := range machines(t) {
		_, ok := m.eval(t, []arg{d.normal(64, 64), d.normal(64, 64)}, func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) })
		require.True(t, ok, m.name)
	}
}
