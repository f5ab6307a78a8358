package ggml_test

import (
	"context"
	"fmt"
	"os"

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

func ExampleMemoryReport() {
	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 1<<20)
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	defer buffers.Close()
	buffers.SetUsage(ggml.UsageWeights)

	report := must(ggml.MemoryReport())
	for _, m := range report {
		if m.Device.Type() == ggml.CPU {
			fmt.Println(m.Device.Name(), m.Weights >= 4<<20, m.Total > 0)
		}
	}
	// Output: CPU true true
}

// Which ops take the time?
func ExampleProfile() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	s := must(ggml.NewScheduler(ggml.SchedulerOptions{}, backend))
	defer s.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.Arange(0, 1000, 1)
	graph := c.NewGraph(c.Sum(c.Sqr(x)))
	check(s.Allocate(graph))
	profile := must(s.Profile(context.Background(), graph))
	for _, node := range profile {
		fmt.Println(node.Op, node.Backend.Name(), node.Time > 0)
	}
	fmt.Println(profile.Total() >= profile.Slowest()[0].Time)
	// Output:
	// arange CPU true
	// sqr CPU true
	// sum CPU true
	// true
}
