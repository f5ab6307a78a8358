package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func ExampleGraph_WriteDOT() {
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.Q8_0, 64, 32).SetName("w")
	x := c.NewTensor(ggml.F32, 64).SetName("x").SetInput()
	y := c.Silu(c.MulMat(w, x)).SetName("y")
	check(c.NewGraph(y).WriteDOT(os.Stdout))
	// Output:
	// digraph ggml {
	// 	rankdir=TB; node [fontname=monospace, style=filled, fillcolor=white];
	// 	leaf0 [shape=ellipse, label="w q8_0[64, 32]"];
	// 	leaf1 [shape=ellipse, label="x f32[64]", fillcolor=palegreen];
	// 	node0 [shape=box, label="mul_mat() f32[32] = mul_mat"];
	// 	node1 [shape=box, label="y f32[32] = silu", fillcolor=lightblue];
	// 	leaf0 -> node0 [label=0];
	// 	leaf1 -> node0 [label=1];
	// 	node0 -> node1;
	// }
}

func ExampleGraph_Summary() {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 64, 10)
	for range 2 {
		x = c.Silu(c.MulMat(c.NewTensor(ggml.F32, 64, 64), x))
	}
	fmt.Println(c.NewGraph(c.Transpose(x)).Summary())
	// Output:
	// 5 nodes, 3 leaves, 165 kFLOP
	// mul_mat        2  164 kFLOP
	// silu           2  1.28 kFLOP
	// transpose      1  0 FLOP
}

func ExampleGraph_Leaves() {
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.F32, 2).SetName("w").SetParam()
	x := c.NewTensor(ggml.F32, 2).SetName("x").SetInput()
	y := c.Mul(x, w)
	g := c.NewGraph(c.Add(y, x))
	for t := range g.Leaves() {
		fmt.Println("leaf:", t)
	}
	for t := range g.Inputs() {
		fmt.Println("input:", t)
	}
	fmt.Println("sources:", y.Sources())
	// Output:
	// leaf: x f32[2]
	// leaf: w f32[2]
	// input: x f32[2]
	// sources: [x f32[2] w f32[2]]
}

func TestSourcesAndViews(t *testing.T) {
	other, c := ggml.NewContext(), ggml.NewContext()
	defer other.Close()
	defer c.Close()
	x := other.NewTensor(ggml.F32, 4, 4).SetName("x")
	require.Empty(t, x.Sources())
	require.Nil(t, x.ViewSource())
	row := c.View(x, []int64{4}, nil, x.Stride(1))
	part := c.View(row, []int64{2}, nil, 8)
	require.True(t, part.ViewSource().Is(x), "a view of a view is one of the origin")
	require.Same(t, other, part.ViewSource().Context())
	require.EqualValues(t, 24, part.ViewOffset())
	require.True(t, part.Sources()[0].Is(row))

	mask := c.NewTensor(ggml.F32, 4, 4)
	require.Len(t, c.SoftMaxExt(x, mask, 1, 0).Sources(), 2)
	require.Len(t, c.SoftMax(x).Sources(), 1)

	var none *ggml.Tensor
	require.Empty(t, none.Sources())
	require.Nil(t, none.ViewSource())
	require.Zero(t, none.ViewOffset())
	other.Close()
	require.Empty(t, part.Sources())
	require.Nil(t, part.ViewSource())
}

// A leaf that no node uses, and parameters, are leaves too.
func TestLeaves(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	p := c.NewTensor(ggml.F32, 3).SetParam()
	lone := c.NewTensor(ggml.F32, 3)
	loss := c.Sum(c.Sqr(p)).SetLoss()
	g := c.NewTrainingGraph(loss, lone)
	require.NoError(t, g.Backward())
	var leaves []*ggml.Tensor
	for x := range g.Leaves() {
		leaves = append(leaves, x)
	}
	require.True(t, leaves[0].Is(p))
	found := false
	for _, x := range leaves {
		require.Equal(t, "none", x.Op())
		found = found || x.Is(lone)
	}
	require.True(t, found)
	for range g.Leaves() {
		break // no more is asked for
	}
	require.Empty(t, c.NewGraph().Summary().Ops)
	c.Close()
	require.Zero(t, g.Summary().Nodes)
}

func TestDOT(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4, 4).SetName("quote \" slash \\ \n line")
	y := c.Add(c.Cont(c.Transpose(x)), x)
	g := c.NewGraph(y)
	var first, second strings.Builder
	require.NoError(t, g.WriteDOT(&first))
	require.NoError(t, g.WriteDOT(&second))
	require.Equal(t, first.String(), second.String())
	require.Contains(t, first.String(), `label="quote \" slash \\ \n line f32[4, 4]"`)
	for _, line := range strings.Split(first.String(), "\n") {
		require.Zero(t, strings.Count(strings.NewReplacer(`\\`, "", `\"`, "").Replace(line), `"`)%2, "quotes are closed: %s", line)
	}

	broken := errors.New("disk full")
	require.ErrorIs(t, g.WriteDOT(failingWriter{broken}), broken)
	require.ErrorContains(t, c.NewGraph().WriteDOT(&first), "the graph is empty; add tensors by Expand")
	var none *ggml.Graph
	require.ErrorContains(t, none.WriteDOT(&first), "the graph is nil")
	c.Close()
	require.ErrorIs(t, g.WriteDOT(&first), ggml.ErrClosed)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestSummaryFLOPs(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 8, 3, 2), c.NewTensor(ggml.F32, 8, 5, 4)
	require.EqualValues(t, 2*8*3*5*4, c.NewGraph(c.MulMat(a, b)).Summary().FLOPs)
	u, v := c.NewTensor(ggml.F32, 3, 7), c.NewTensor(ggml.F32, 5, 7)
	require.EqualValues(t, 2*3*5*7, c.NewGraph(c.OutProd(u, v)).Summary().FLOPs)
	q := c.NewTensor(ggml.F32, 16, 5, 4)
	k, w := c.NewTensor(ggml.F16, 16, 9, 2), c.NewTensor(ggml.F16, 8, 9, 2)
	s := c.NewGraph(c.FlashAttention(q, k, w, nil, 1, 0, 0)).Summary()
	require.NoError(t, c.Err())
	require.EqualValues(t, 2*(16+8)*5*4*9, s.FLOPs)
	require.Equal(t, "flash_attn_ext", s.Ops[0].Op)
}

// reportOf is the CPU's entry of the report.
func reportOf(t *testing.T) ggml.DeviceMemory {
	report, err := ggml.MemoryReport()
	require.NoError(t, err)
	for _, m := range report {
		if m.Device.Type() == ggml.CPU {
			return m
		}
	}
	require.Fail(t, "there is no CPU in the report")
	return ggml.DeviceMemory{}
}

func TestMemoryReport(t *testing.T) {
	before := reportOf(t)
	require.Positive(t, before.Total)
	require.Positive(t, before.Free)
	backend, err := ggml.NewCPUBackend(1)
	require.NoError(t, err)
	defer backend.Close()

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1<<18)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.EqualValues(t, 1<<20, reportOf(t).Other-before.Other)
	buffers.SetUsage(ggml.UsageWeights)
	require.EqualValues(t, 1<<20, reportOf(t).Weights-before.Weights)
	require.Equal(t, before.Other, reportOf(t).Other)

	alloc, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	defer alloc.Close()
	require.NoError(t, alloc.Alloc(c.NewGraph(c.Sqr(x))))
	require.Positive(t, alloc.Size())
	require.Equal(t, alloc.Size(), reportOf(t).Compute-before.Compute)

	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, backend)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Alloc(c.NewGraph(c.Sqrt(x))))
	require.Positive(t, s.BufferSize(backend))
	require.Equal(t, alloc.Size()+s.BufferSize(backend), reportOf(t).Compute-before.Compute)
	require.Regexp(t, `^CPU: .* free of .*B; weights .*, compute .*, other .*B$`, reportOf(t).String())

	s.Close()
	alloc.Close()
	buffers.Close()
	after := reportOf(t)
	require.Equal(t, before.Weights, after.Weights)
	require.Equal(t, before.Compute, after.Compute)
	require.Equal(t, before.Other, after.Other)
}

// Inspecting while others allocate, compute and close is safe.
func TestInspectConcurrently(t *testing.T) {
	backend, err := ggml.NewCPUBackend(1)
	require.NoError(t, err)
	defer backend.Close()
	alloc, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	defer alloc.Close()
	c := ggml.NewContext()
	x := c.NewTensor(ggml.F32, 64).SetInput()
	g := c.NewGraph(c.SoftMax(c.Sqr(x)))
	var wait sync.WaitGroup
	for range 2 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 100 {
				var out strings.Builder
				_ = g.WriteDOT(&out)
				_ = g.Summary().String()
				_ = fmt.Sprintf("%+v", x)
				_, err := ggml.MemoryReport()
				assert.NoError(t, err)
			}
		}()
	}
	for range 50 {
		require.NoError(t, alloc.Alloc(g))
		require.NoError(t, backend.Compute(context.Background(), g))
		g.Expand(c.Neg(x))
	}
	c.Close()
	wait.Wait()
}

func ExampleMemoryReport() {
	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 1<<20)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	defer buffers.Close()
	buffers.SetUsage(ggml.UsageWeights)

	report, err := ggml.MemoryReport()
	check(err)
	for _, m := range report {
		if m.Device.Type() == ggml.CPU {
			fmt.Println(m.Device.Name(), m.Weights >= 4<<20, m.Total > 0)
		}
	}
	// Output: CPU true true
}
