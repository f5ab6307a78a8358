package ggml_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"log"
	"log/slog"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

// chain makes a graph of n consecutive products of square matrices.
func chain(t testing.TB, n int, size int64, after ...ggml.CustomFunc) (*ggml.Graph, *ggml.Tensor) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	m := leaves.NewTensor(ggml.F32, size, size)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	values := make([]float32, size*size)
	for i := range size {
		values[i*size+i] = 1
	}
	require.NoError(t, ggml.Write(m, values))
	y := m
	for range n {
		y = c.MulMat(m, y)
		for _, f := range after {
			y = c.MapCustomInPlace(f, 1, y)
		}
	}
	t.Cleanup(func() {
		buffers.Close()
		c.Close()
		leaves.Close()
	})
	return c.NewGraph(y), y
}

// steps returns a graph of n steps, each of which adds 1 to x, and its result.
func steps(t testing.TB, n int) (*ggml.Graph, *ggml.Tensor) {
	x := optest.Leaves(t, 2, 4)
	require.NoError(t, ggml.Write(x[1], []float32{1, 1, 1, 1}))
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	y := x[0]
	for range n {
		y = c.Add(y, x[1])
	}
	return c.NewGraph(y), y
}

// assertNoError is for goroutines of a test, which must not end the test.
func assertNoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// addition is the graph y = a + a with everything needed to compute it.
type addition struct {
	c       *ggml.Context
	a, y    *ggml.Tensor
	graph   *ggml.Graph
	buffers *ggml.Buffers
	alloc   *ggml.GraphAllocator
	backend *ggml.Backend
}

func (b *addition) compute() error { return b.backend.Compute(context.Background(), b.graph) }

func (b *addition) works(t testing.TB) {
	t.Helper()
	require.NoError(t, b.compute())
	got := need.Value(ggml.Read[float32](b.y))(t)
	require.Equal(t, []float32{2, 4, 6, 8}, got)
}

// newAddition makes y = a + a, with a = [1 2 3 4] in a buffer and y allocated.
func newAddition(t testing.TB) *addition {
	leaves := ggml.NewContext()
	b := &addition{c: ggml.NewContext(), a: leaves.NewTensor(ggml.F32, 4).SetName("a")}
	b.y = b.c.Add(b.a, b.a).SetName("y")
	b.graph = b.c.NewGraph(b.y)
	b.buffers = need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	require.NoError(t, ggml.Write(b.a, []float32{1, 2, 3, 4}))
	b.alloc = need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
	require.NoError(t, b.alloc.Allocate(b.graph))
	b.backend = need.Value(ggml.NewCPUBackend(1))(t)
	t.Cleanup(func() {
		b.backend.Close()
		b.alloc.Close()
		b.buffers.Close()
		b.c.Close()
		leaves.Close()
	})
	return b
}

// remote adds a server and returns its device, which is listed until the test ends.
func remote(t testing.TB, s *optest.RPCServer) *ggml.Device {
	r := need.Value(ggml.AddRPCServer(s.Endpoint))(t)
	t.Cleanup(func() { require.NoError(t, r.Unload()) })
	require.Len(t, r.Devices(), 1)
	return r.Devices()[0]
}

var placedBuffers = map[*ggml.Tensor]*ggml.Buffers{}

// placed makes an F32 tensor in memory of a device.
func placed(t testing.TB, d *ggml.Device, shape ...int64) *ggml.Tensor {
	c := ggml.NewContext()
	x := c.NewTensor(ggml.F32, shape...)
	buffers := need.Value(c.Allocate(d.BufferType()))(t)
	placedBuffers[x] = buffers
	t.Cleanup(func() { closePlaced(x) })
	return x
}

func closePlaced(x *ggml.Tensor) {
	placedBuffers[x].Close()
	x.Context().Close()
	delete(placedBuffers, x)
}

// allDevices lists the devices of this process, including servers added by tests.
func allDevices(t testing.TB) []*ggml.Device {
	return need.Value(ggml.Devices())(t)
}

// A rig is several real devices: two RPC servers, BLAS if its plugin is installed, and the CPU
// last.
type rig struct {
	devices  []*ggml.Device
	backends []*ggml.Backend
}

func newRig(t testing.TB) *rig {
	r := &rig{devices: []*ggml.Device{remote(t, optest.StartRPCServer(t)), remote(t, optest.StartRPCServer(t))}}
	if d, err := ggml.BLASDevice(); err == nil {
		r.devices = append(r.devices, d)
	} else {
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
	}
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	r.devices = append(r.devices, cpu)
	for _, d := range r.devices {
		b := need.Value(d.NewBackend())(t)
		t.Cleanup(func() { b.Close() })
		if d.Description() == cpu.Description() || b.IsBLAS() {
			require.NoError(t, b.SetThreads(1))
		}
		r.backends = append(r.backends, b)
	}
	return r
}

// requireNear requires |got − want| ≤ bound · max(1, |want|) for every element.
func requireNear(t testing.TB, want []float64, got []float32, bound float64, message any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		require.LessOrEqual(t, math.Abs(float64(got[i])-w), bound*max(1, math.Abs(w)), "element %d: %v", i, message)
	}
}

// captureLog sends ggml's log to a buffer.
func captureLog(t testing.TB) *testutil.Log {
	var b testutil.Log
	ggml.SetLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() {
		ggml.SetLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	})
	return &b
}

// nodeNames returns the names of a graph's nodes, in order.
func nodeNames(g *ggml.Graph) []string {
	var list []string
	for t := range g.Nodes() {
		list = append(list, t.Name())
	}
	return list
}

// bytesOf returns the memory of a slice.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// callerOf returns file:line of a function literal: the tested calls are on the same line.
func callerOf(f any) string {
	file, n := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).FileLine(reflect.ValueOf(f).Pointer())
	return fmt.Sprintf("%s:%d", filepath.Base(file), n)
}

// raceDetector reports whether the tests run under the race detector.
var raceDetector bool

// ends requires that a function returns.
func ends(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.FailNow(t, "it does not end")
	}
}

// network returns a graph of several ops with a view, and its named result.
func network(t testing.TB) (*ggml.Graph, *ggml.Tensor) {
	x := optest.Leaves(t, 2, 32, 32)
	for i, w := range x {
		values := make([]float32, 32*32)
		for k := range values {
			values[k] = float32((k*7+i*13)%31)/31 - 0.5
		}
		require.NoError(t, ggml.Write(w, values))
	}
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	h := c.Silu(c.MulMat(x[0], x[1]))
	h = c.Cont(c.Transpose(h))
	y := c.SoftMax(c.Add(h, c.MulMat(x[1], h))).SetName("y")
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	return g, y
}

// residentBytes returns the resident memory of the process, 0 if unknown.
func residentBytes(t testing.TB) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages := need.Value(strconv.ParseInt(strings.Fields(string(data))[1], 10, 64))(t)
	return pages * int64(os.Getpagesize())
}

func quantized(t require.TestingT, typ ggml.Type, src []float32, rowLen int) []byte {
	var importance []float32
	if typ.NeedsImportance() {
		importance = optest.Ones(rowLen)
	}
	dst := make([]byte, typ.RowSize(int64(len(src))))
	require.NoError(t, ggml.Quantize(dst, typ, src, ggml.QuantizeOptions{RowLen: rowLen, Importance: importance}))
	return dst
}

// withRegion copies the rows of data into a copy of before.
func withRegion(before, data []byte, p ggml.Region2D) (after []byte, possible bool) {
	if p.SliceStride == 0 {
		p.SliceStride = p.Width
	}
	after = append([]byte{}, before...)
	if p.Offset < 0 || p.Offset > int64(len(before)) || p.Width < 0 || p.Rows < 0 {
		return nil, false
	}
	if p.Width == 0 || p.Rows == 0 {
		return after, true
	}
	if p.Rows > 1 && (p.Stride < p.Width || p.SliceStride < p.Width || p.Stride > 1<<20 || p.SliceStride > 1<<20) {
		return nil, false
	}
	for i := range p.Rows {
		to, from := p.Offset+i*p.Stride, i*p.SliceStride
		if to+p.Width > int64(len(after)) || from+p.Width > int64(len(data)) {
			return nil, false
		}
		copy(after[to:to+p.Width], data[from:])
	}
	return after, true
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// reportOf returns the CPU's entry of the report.
func reportOf(t *testing.T) ggml.DeviceMemory {
	report := need.Value(ggml.MemoryReport())(t)
	for _, m := range report {
		if m.Device.Type() == ggml.CPU {
			return m
		}
	}
	require.Fail(t, "there is no CPU in the report")
	return ggml.DeviceMemory{}
}

func readPackage(t *testing.T, folder string) (*doc.Package, []*ast.File) {
	fset := token.NewFileSet()
	entries := need.Value(os.ReadDir(folder))(t)
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && name != "nocgo.go" {
			f := need.Value(parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.ParseComments))(t)
			files = append(files, f)
		}
	}
	p := need.Value(doc.NewFromFiles(fset, files, path.Join("github.com/goggml/ggml", folder), doc.PreserveAST))(t)
	require.NotEmpty(t, p.Types)
	return p, files
}
