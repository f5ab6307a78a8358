package optest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// A Device computes graphs, with the CPU as fallback for ops that it does not support.
type Device struct {
	*ggml.Device
	Name      string
	Backends  []*ggml.Backend // of the device, then of the CPU
	scheduler *ggml.Scheduler
	threads   int // number of CPU threads
	share     int // it computes one in share of the runs that it supports
}

var devices struct {
	sync.Once
	list   []*Device
	server *RPCServer
	err    error
}

// Devices returns the CPU with one thread, in which a failed assertion is an error of the test, the CPU with
// several threads, every other device, and without -short a device of an RPC server. [Main] closes them.
func Devices(t testing.TB) []*Device {
	devices.Do(func() {
		list := []*Device{{Device: CPU(t), threads: 1, share: 1}, {Device: CPU(t), threads: 3, share: 3}}
		all := need.Value(ggml.Devices())(t)
		for _, d := range all {
			others := d.Type() == ggml.MetaDevice || strings.HasPrefix(d.Registry().Name(), "RPC") // belong to tests that run now
			if d.Type() != ggml.CPU && !others {
				list = append(list, &Device{Device: d, threads: 1, share: 5})
			}
		}
		if !testing.Short() { // each message to a server takes a millisecond
			list = append(list, &Device{Device: remote(t), threads: 1, share: 5})
		}
		for _, d := range list {
			d.Name = d.Device.Name()
			if d.threads > 1 {
				d.Name += fmt.Sprintf("_%d_threads", d.threads)
			}
			if err := d.open(); err != nil {
				devices.err = err
				continue
			}
			devices.list = append(devices.list, d)
		}
	})
	require.NoError(t, devices.err)
	return devices.list
}

// remote starts a server and returns its device, which other tests do not see.
func remote(t testing.TB) *ggml.Device {
	devices.server = newRPCServer(t, ServerOptions{})
	r := need.Value(ggml.AddRPCServer(devices.server.Endpoint))(t)
	device := r.Devices()[0]
	require.NoError(t, r.Unload())
	return device
}

func (d *Device) open() error {
	d.Backends = nil
	if d.Type() != ggml.CPU {
		b, err := d.NewBackend()
		if err != nil {
			return err
		}
		d.Backends = append(d.Backends, b)
	}
	cpu, err := ggml.NewCPUBackend(d.threads)
	if err != nil {
		return err
	}
	d.Backends = append(d.Backends, cpu)
	d.scheduler, err = ggml.NewScheduler(ggml.SchedulerOptions{}, d.Backends...)
	return err
}

func (d *Device) close() {
	d.scheduler.Close()
	for _, b := range d.Backends {
		b.Close()
	}
}

func closeDevices() {
	for _, d := range devices.list {
		d.close()
	}
	if devices.server != nil {
		devices.server.Kill()
	}
}

// takes reports whether the device computes any node of the graph.
func (d *Device) takes(g *ggml.Graph) bool {
	if d.Type() == ggml.CPU {
		return true
	}
	for n := range g.Nodes() {
		// RPC claims all ops, including callbacks into this process.
		if computed(n) && n.OpCode().String() != "custom" && d.SupportsOp(n) {
			return true
		}
	}
	return false
}

// rounded returns the type to which products round their operands. Vulkan multiplies F32 in F16, unless
// SetPrecision forbids it.
func (d *Device) rounded(t ggml.Type) ggml.Type {
	if t == ggml.F32 && strings.HasPrefix(d.Name, "Vulkan") {
		return ggml.F16
	}
	return t
}

// computed reports whether a node is more than a view of its operand.
func computed(n *ggml.Tensor) bool {
	switch n.Op() {
	case "none", "reshape", "view", "permute", "transpose":
		return false
	}
	return true
}

// A program is an op with operands in a separate context.
type program struct {
	leaves, c *ggml.Context
	x         []*ggml.Tensor
	y         *ggml.Tensor
}

func newProgram(operands []Operand, build func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) *program {
	p := &program{leaves: ggml.NewContext(), c: ggml.NewContext()}
	for _, o := range operands {
		p.x = append(p.x, o.place(p.leaves))
	}
	p.y = build(p.c, p.x)
	return p
}

func (p *program) close() {
	p.c.Close()
	p.leaves.Close()
}

// A Result is the result of an op.
type Result struct {
	Values []float32
	Shape  [4]int64
	Type   ggml.Type
}

// Eval computes an op with its operands in the device's memory; ok reports whether the device takes part.
func (d *Device) Eval(t testing.TB, operands []Operand, build func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) (r Result, ok bool) {
	p := newProgram(operands, build)
	defer p.close()
	require.NoError(t, p.leaves.Err())
	require.NoError(t, p.c.Err(), describe(operands))
	g := p.c.NewGraph(p.y)
	if !d.takes(g) {
		return r, false
	}
	buffers := need.Value(p.leaves.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	for i, o := range operands {
		o.Write(t, p.x[i])
	}
	d.Compute(t, g)
	for i := range r.Shape {
		r.Shape[i] = p.y.Dim(i)
	}
	r.Values, r.Type = Values(t, p.y), p.y.Type()
	return r, true
}

// Compute allocates and computes a graph.
func (d *Device) Compute(t testing.TB, g *ggml.Graph) {
	t.Helper()
	require.NoError(t, g.Context().Err())
	require.NoError(t, d.scheduler.Allocate(g))
	err := d.scheduler.Compute(context.Background(), g)
	if errors.Is(err, ggml.ErrBroken) {
		d.close() // one failure must not fail all other tests
		require.NoError(t, d.open())
	}
	require.NoError(t, err)
}
