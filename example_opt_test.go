package ggml_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
)

// lineData returns 32 samples of y = 3a − 2b + 1 on a grid.
func lineData() *ggml.Dataset {
	const n = 32
	d := must(ggml.NewDataset(ggml.DatasetOptions{Samples: n, SampleSize: 2, LabelSize: 1}))
	var x, y []float32
	for i := range n {
		a, b := float32(i%8)/8, float32(i/8)/4
		x, y = append(x, a, b), append(y, 3*a-2*b+1)
	}
	check(ggml.Write(d.Data(), x))
	check(ggml.Write(d.Labels(), y))
	return d
}

// Fit trains the parameters of a graph with a data set. This network is one layer, which can
// represent a line exactly.
func ExampleFit() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	d := lineData()
	defer d.Close()

	// Weights and inputs have memory of their own; the optimizer allocates the rest.
	leaves := ggml.NewContext()
	defer leaves.Close()
	x := leaves.NewTensor(ggml.F32, 2, 8).SetInput() // batches of 8 samples
	w := leaves.NewTensor(ggml.F32, 2, 1).SetName("w").SetParam()
	bias := leaves.NewTensor(ggml.F32, 1).SetName("bias").SetParam()
	buffers := must(leaves.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(buffers.Clear(0))

	c := ggml.NewContext()
	defer c.Close()
	y := c.Add(c.MulMat(w, x), bias)
	check(ggml.Fit(context.Background(), d, ggml.FitOptions{
		Inputs: x, Outputs: y,
		Loss: ggml.LossMeanSquaredError, LearningRate: 0.05, Epochs: 200,
	}, backend))
	weights := must(ggml.Read[float32](w))
	constant := must(ggml.Read[float32](bias))
	fmt.Printf("%.2f %.2f\n", weights, constant)
	// Output: [3.00 -2.00] [1.00]
}

// A network with a hidden layer learns the exclusive or of two numbers, is stored in a file, read
// back, and used.
func Example_train() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	d := must(ggml.NewDatasetOf([][]float32{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, [][]float32{{0}, {1}, {1}, {0}}))
	defer d.Close()

	network := func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		w := map[string]*ggml.Tensor{}
		for t := range c.Tensors() {
			w[t.Name()] = t
		}
		hidden := c.Silu(c.Add(c.MulMat(w["w1"], x), w["b1"]))
		return c.Add(c.MulMat(w["w2"], hidden), w["b2"])
	}
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 4)
	c.NewTensor(ggml.F32, 2, 8).SetName("w1").SetParam()
	c.NewTensor(ggml.F32, 8).SetName("b1").SetParam()
	c.NewTensor(ggml.F32, 8, 1).SetName("w2").SetParam()
	c.NewTensor(ggml.F32, 1).SetName("b2").SetParam()
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()
	random := rand.New(rand.NewPCG(1, 2))
	file := must(ggml.NewGGUF())
	defer file.Close()
	for p := range c.Params() {
		check(p.SetNormal(random, 0, 1))
		check(file.AddTensor(p))
	}
	check(ggml.Fit(context.Background(), d, ggml.FitOptions{
		Inputs: x, Outputs: network(c, x),
		Loss: ggml.LossMeanSquaredError, LearningRate: 0.05, Epochs: 500,
	}, backend))
	folder := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "xor.gguf")
	check(file.WriteFile(path))

	stored := must(ggml.OpenGGUF(path))
	defer stored.Close()
	model := ggml.NewContext()
	defer model.Close()
	weights := must(stored.Load(model, backend.Device(), ggml.LoadOptions{}))
	defer weights.Close()
	input := model.NewTensor(ggml.F32, 2, 4)
	output := network(model, input)
	graph := model.NewGraph(output)
	rest := must(model.Allocate(backend.BufferType()))
	defer rest.Close()
	check(ggml.Write(input, []float32{0, 0, 0, 1, 1, 0, 1, 1}))
	check(backend.Compute(context.Background(), graph))
	values := must(ggml.Read[float32](output))
	for i := range values {
		values[i] = max(values[i], 0) // no −0 in the output
	}
	fmt.Printf("%.1f\n", values)
	// Output: [0.0 1.0 1.0 0.0]
}

// An Optimizer is for programs with their own training loop. This one stops when the loss is small.
func ExampleOptimizer() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	d := lineData()
	defer d.Close()
	leaves := ggml.NewContext()
	defer leaves.Close()
	x := leaves.NewTensor(ggml.F32, 2, 8).SetInput()
	w := leaves.NewTensor(ggml.F32, 2, 1).SetParam()
	bias := leaves.NewTensor(ggml.F32, 1).SetParam()
	buffers := must(leaves.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(buffers.Clear(0))
	c := ggml.NewContext()
	defer c.Close()

	params := ggml.DefaultOptimizerParams()
	params.AdamW.LearningRate = 0.05
	o := must(ggml.NewOptimizer(ggml.OptimizerOptions{
		Loss:   ggml.LossMeanSquaredError,
		Params: ggml.ConstantParams(params),
		Inputs: x, Outputs: c.Add(c.MulMat(w, x), bias),
	}, backend))
	defer o.Close()
	result := must(ggml.NewOptResult())
	defer result.Close()
	for loss := 1.0; loss > 1e-4; loss, _ = result.Loss() {
		check(result.Reset())
		for batch := range int64(4) {
			check(o.Allocate(true)) // true: Eval takes a step
			check(d.CopyBatch(o.Inputs(), o.Labels(), batch))
			check(o.Eval(result))
		}
	}
	weights := must(ggml.Read[float32](w))
	fmt.Printf("%.1f\n", weights)
	// Output: [3.0 -2.0]
}

// A data set stores samples and labels together, and returns them in batches.
func ExampleDataset() {
	d := lineData()
	defer d.Close()
	c := ggml.NewContext()
	defer c.Close()
	x, y := c.NewTensor(ggml.F32, 2, 2), c.NewTensor(ggml.F32, 1, 2)
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	defer buffers.Close()

	check(d.CopyBatch(x, y, 15)) // the last of 16 batches of 2
	samples := must(ggml.Read[float32](x))
	labels := must(ggml.Read[float32](y))
	fmt.Println(d.NumSamples(), samples, labels)
	// Output: 32 [0.75 0.75 0.875 0.75] [1.75 2.125]
}

// Two samples of three numbers, with one label each.
func ExampleNewDatasetOf() {
	d := must(ggml.NewDatasetOf([][]float32{{1, 2, 3}, {4, 5, 6}}, [][]float32{{0}, {1}}))
	defer d.Close()
	fmt.Println(d.Data(), d.Labels())
	// Output: data f32[3, 2] labels f32[1, 2]
}

// Lists the parameters of a context, to initialise or store them.
func ExampleContext_Params() {
	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 2, 4).SetName("x")
	c.NewTensor(ggml.F32, 2, 8).SetName("w").SetParam()
	c.NewTensor(ggml.F32, 8).SetName("b").SetParam()
	for p := range c.Params() {
		fmt.Println(p)
	}
	// Output:
	// w f32[2, 8]
	// b f32[8]
}

// Results accumulate the correct predictions of a classifier.
func ExampleOptResult() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	leaves := ggml.NewContext()
	defer leaves.Close()
	x := leaves.NewTensor(ggml.F32, 2, 4).SetInput()
	w := leaves.NewTensor(ggml.F32, 2, 2).SetParam()
	buffers := must(leaves.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(ggml.Write(w, []float32{1, 0, 0, 1})) // the class is the larger number
	c := ggml.NewContext()
	defer c.Close()
	o := must(ggml.NewOptimizer(ggml.OptimizerOptions{Loss: ggml.LossCrossEntropy, Inputs: x, Outputs: c.MulMat(w, x)}, backend))
	defer o.Close()
	result := must(ggml.NewOptResult())
	defer result.Close()

	check(o.Allocate(false))
	check(ggml.Write(o.Inputs(), []float32{2, 1, 1, 2, 3, 0, 0, 3}))
	check(ggml.Write(o.Labels(), []float32{1, 0, 0, 1, 1, 0, 1, 0})) // the last label differs
	check(o.Eval(result))
	accuracy, _ := result.Accuracy()
	fmt.Println(result.NumSamples(), result.Pred(), accuracy)
	// Output: 4 [0 1 0 1] 0.75
}

// The learning rate warms up over ten steps.
func ExampleOptimizerParams() {
	warmUp := func(iteration int64) ggml.OptimizerParams {
		p := ggml.DefaultOptimizerParams()
		p.AdamW.LearningRate *= min(float32(iteration)/10, 1)
		p.AdamW.WeightDecay = 0.01
		return p
	}
	options := ggml.OptimizerOptions{Loss: ggml.LossMean, Params: warmUp}
	for _, iteration := range []int64{1, 5, 100} {
		fmt.Printf("%.4f\n", options.Params(iteration).AdamW.LearningRate)
	}
	// Output:
	// 0.0001
	// 0.0005
	// 0.0010
}
