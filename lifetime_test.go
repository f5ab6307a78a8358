package ggml_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// lockedBuffer collects a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// captureLog sends the log of the library to a buffer.
func captureLog(t testing.TB) *lockedBuffer {
	var b lockedBuffer
	ggml.SetLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() {
		ggml.SetLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	})
	return &b
}

// What is dropped without Close is freed by the garbage collector, with a
// warning; cycles through contexts, graphs and allocators too.
func TestCollectedWithoutClose(t *testing.T) {
	log := captureLog(t)
	machines(t)
	before := ggml.OpenObjects()
	func() {
		leaves, c := ggml.NewContext(), ggml.NewContext()
		x := leaves.NewTensor(ggml.F32, 4)
		_, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4}))
		y := c.Neg(x)
		leaves.Add(x, y) // now each context depends on the other
		b, err := ggml.NewCPUBackend(1)
		require.NoError(t, err)
		a, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
		require.NoError(t, err)
		g := c.NewGraph(y)
		require.NoError(t, a.Alloc(g))
		require.NoError(t, b.Compute(context.Background(), g))
		s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, b)
		require.NoError(t, err)
		require.NoError(t, s.Alloc(c.NewGraph(c.Abs(x))))
		require.NoError(t, s.SetTensorBackend(y, b))
	}()
	collected(t, before)
	for _, kind := range []string{"context", "buffer", "backend", "\"graph allocator\"", "scheduler"} {
		require.Contains(t, log.String(), `level=WARN msg="ggml: object was garbage collected without Close" kind=`+kind)
	}
}

// collected waits until the garbage collector has closed what was opened since.
func collected(t testing.TB, before map[string]int) {
	require.Eventually(t, func() bool {
		runtime.GC()
		for kind, n := range ggml.OpenObjects() {
			if n > before[kind] {
				return false
			}
		}
		return true
	}, 10*time.Second, 10*time.Millisecond, "still open: %v", ggml.OpenObjects())
}

// A graph keeps the allocator of its memory, and tensors keep their buffer.
func TestMemoryOutlivesItsVariables(t *testing.T) {
	b := cpuBackend(t, 1)
	before := ggml.OpenObjects()
	captureLog(t)
	useDropped(t, b)
	collected(t, before)
}

func useDropped(t *testing.T, b *ggml.Backend) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leaves.NewTensor(ggml.F32, 2)
	y := c.Neg(x)
	g := c.NewGraph(y)
	func() {
		_, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		a, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
		require.NoError(t, err)
		require.NoError(t, a.Alloc(g))
	}()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, ggml.Write(x, []float32{1, 2}))
	require.NoError(t, b.Compute(context.Background(), g))
	got, err := ggml.Read[float32](y)
	require.NoError(t, err)
	require.Equal(t, []float32{-1, -2}, got)
}

// residentBytes is the memory of the process, 0 where it cannot be told.
func residentBytes(t testing.TB) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// The log of the library goes to slog, line by line.
func TestLogger(t *testing.T) {
	log := captureLog(t)
	_, err := ggml.CPUBufferType().NewBuffer(1 << 55)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Contains(t, log.String(), `level=ERROR msg="ggml: `)
}

// A logger that panics does not unwind the frames of C.
func TestPanickingLogger(t *testing.T) {
	captureLog(t)
	ggml.SetLogger(slog.New(panicHandler{slog.NewTextHandler(os.Stderr, nil)}))
	_, err := ggml.CPUBufferType().NewBuffer(1 << 55)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	newBench(t).works(t)
}

type panicHandler struct{ slog.Handler }

func (panicHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panicHandler) Handle(context.Context, slog.Record) error { panic("no") }

func TestSetName(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1)
	require.Equal(t, "", x.Name())
	long := strings.Repeat("ä", 40) // 80 bytes: the cut falls into a character
	require.Equal(t, strings.Repeat("ä", 31), x.SetName(long).Name())
	exact := strings.Repeat("a", ggml.MaxName)
	require.Equal(t, exact, x.SetName(exact+"b").Name())
	require.Equal(t, "a", x.SetName("a\x00b").Name())
	require.True(t, c.Lookup("a").Is(x))
	require.Nil(t, c.Lookup("b"))
}

// Nodes of other contexts are known by these.
func TestNodesOfOtherContexts(t *testing.T) {
	a, b := ggml.NewContext(), ggml.NewContext()
	defer b.Close()
	inner := a.Neg(a.NewTensor(ggml.F32, 2)).SetName("inner")
	outer := b.Abs(inner).SetName("outer")
	g := b.NewGraph(outer)
	var names []string
	for n := range g.Nodes() {
		names = append(names, n.Name())
		require.Equal(t, n.Name() == "inner", n.Context() == a)
	}
	require.Equal(t, []string{"inner", "outer"}, names)
	a.Close()
	for range g.Nodes() {
		t.Fatal("a node of a closed context")
	}
}

// The library's recursion over the operands would overflow the stack.
func TestDeepGraph(t *testing.T) {
	b := newBench(t)
	y := b.a
	for range 300_000 {
		y = b.c.Neg(y)
	}
	g := b.c.NewGraph(y)
	require.Equal(t, 300_000, g.NumNodes())
	require.NoError(t, b.alloc.Alloc(g))
	require.NoError(t, b.backend.Compute(context.Background(), g))
	got, err := ggml.Read[float32](y)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, got)
}
