// Package ggml is a binding of the C tensor library ggml: tensors, graphs of
// operations on them, the backends that compute these, and the GGUF file
// format.
//
// # Concepts
//
// A [Context] owns tensors and graphs. A [Tensor] is a type and a shape, and either a place for
// data or the result of an op. An op is a method of a context; it computes nothing, but records
// that the result depends on its operands. A [Graph] lists tensors in the order of computation. A
// [Buffer] holds the data of tensors in the memory of a [Device]; a [Backend] computes graphs on a
// device. So every program takes the same steps:
//
//  1. make tensors and ops in a context, and a graph of the results;
//  2. allocate the leaves by [Context.Allocate], the graph by a
//     [GraphAllocator] or a [Scheduler];
//  3. write the leaves by [Write], compute, and read the results by [Read].
//
// A complete program, which multiplies two matrices and prints [12 34 56]:
//
//	backend, err := ggml.NewBestBackend()
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer backend.Close()
//	c := ggml.NewContext()
//	defer c.Close()
//	a := c.NewTensor(ggml.F32, 2, 3) // 3 rows of 2
//	b := c.NewTensor(ggml.F32, 2, 1) // 1 row of 2
//	product := c.MulMat(a, b)        // nothing is computed yet
//	graph := c.NewGraph(product)
//	buffers, err := c.Allocate(backend.BufferType())
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer buffers.Close()
//	ggml.Write(a, []float32{1, 2, 3, 4, 5, 6})
//	ggml.Write(b, []float32{10, 1})
//	if err := backend.Compute(context.Background(), graph); err != nil {
//		log.Fatal(err)
//	}
//	values, err := ggml.Read[float32](product)
//	fmt.Println(values, err)
//
// (Errors of Write, left out here, are errors of the program, such as a slice
// whose size is not the tensor's.)
//
// Where a symbol has a C function behind it, its doc comment ends with the name,
// after "C:", so that a search for ggml_mul_mat finds [Context.MulMat].
//
// # Shapes
//
// A shape is [ne0, ne1, ne2, ne3], and ne0 is the fastest dimension: the elements of a row are
// adjacent, and a row has ne0 elements. A matrix of 2 rows and 3 columns in other libraries has the
// shape [3, 2] here. Missing dimensions are 1: trailing ones may be omitted in arguments, and are
// omitted in print. Slices of elements, as Write takes and Read returns them, are in this order
// too.
//
// [Context.MulMat] takes both factors as rows along the summed dimension:
// a [k, m] and b [k, n] give [m, n].
//
// A view (the result of [Context.View], [Context.Reshape], [Context.Permute], [Context.Transpose],
// or an op that works in place) shares the memory of another tensor. Each op documents the layouts
// it takes; [Context.Cont] makes a contiguous copy.
//
// # Building graphs and errors
//
// Ops return no error. The context keeps the first error. The result of a failed op stands for the
// failure and may be passed on; every op that gets it as an operand fails with the same error.
// Allocating, computing, reading and writing return that first error, so that it cannot be missed;
// [Context.Err] returns it earlier. It is an [*OpError], which names the op, its operands with
// types and shapes, what is wrong, and the line of the call:
//
//	ggml: mul_mat(w f32[4, 3], x f32[5, 2]): ne0 must be equal: w has 4, x has 5 (at model.go:42)
//
// Errors of other functions name the function:
//
//	ggml: Write(x f32[5, 2]): the tensor has 10 elements, the slice 8 (at model.go:43)
//
// The format %v prints a tensor like the operands above, %+v also prints its values.
//
// Everything else returns its error. Test for [ErrClosed], [ErrZeroValue],
// [ErrBusy], [ErrNotLoaded], [ErrNotAllocated], [ErrOutOfMemory], [ErrBroken] and
// [ErrDisconnected] with errors.Is.
//
// # Memory
//
// [Context.Allocate] gives every tensor of a context memory of its own: use it for weights and
// inputs. A [GraphAllocator] plans the memory of a graph, and reuses the memory of results that are
// no longer needed. Therefore mark results to be read by [Tensor.SetOutput] ([Context.NewGraph]
// does so), mark leaves in such memory by [Tensor.SetInput], and write these leaves before each
// compute. Allocating the next graph makes the tensors of the last one unallocated. Contexts are
// cheap: keep weights in one context, and make another for each graph that changes.
//
// To plan memory in advance, [GraphAllocator.Reserve] plans the largest graph without computing it,
// and [GraphAllocator.Size] returns the bytes; [DeviceProperties] report the device's memory.
// [MemoryReport] lists the memory that this process holds on each device, by kind. Allocating a
// context that does not fit fails with [ErrOutOfMemory], and nothing of it stays allocated. Weights
// in a file are best memory-mapped ([GGUF.Load] does so on the CPU): only pages that are read take
// memory, and the system can drop them again.
//
// # Devices and build tags
//
// Backends are plugins, found when the program starts to use them: [LoadBackends] documents where.
// [Devices] lists all devices. A program without build tags uses every installed backend. With the
// tag cpu it uses only the CPU; with cuda, metal or vulkan it fails at start if that backend or its
// device is missing. [CUDADevices], [MetalDevices], [VulkanDevices] and [BLASDevice] are in every
// build, and say how to install a missing backend; [UnusedGPU] does so if the machine has a GPU
// with its driver.
//
// [AddRPCServer] adds the devices of another process or machine, which offers them by package rpc;
// they behave like local devices. If the server dies, using them returns [ErrDisconnected], and the
// program goes on.
//
// # Several devices
//
// A [Scheduler] computes a graph on several backends, given in order of preference with the CPU
// last: each op runs where its weights are, if it is supported there, else on the next backend that
// supports it. It splits the graph accordingly ([Scheduler.NumGraphSplits]), and copies tensors
// from one part to the next. To divide a model, load its layers into buffers of different devices;
// [Scheduler.SetTensorBackend] moves a single op. [Scheduler.TensorBackend] returns the backend of
// an op, [Scheduler.Profile] its time there.
//
// Without a scheduler, one graph runs on one backend. [CopyTensorAsync] moves
// a tensor between two, [Event] orders their work, and [Graph.CopyTo] makes a
// copy of a graph with its data for another device. [Backend.ComputeAsync]
// lets a device compute while the program goes on, until
// [Backend.Synchronize].
//
// [NewMetaDevice] divides each weight instead of the layers: its devices
// compute every op together.
//
// # Training
//
// Parameters are leaves marked by [Tensor.SetParam], a loss is a scalar marked by [Tensor.SetLoss].
// [Fit] trains the parameters of outputs with the samples of a [Dataset] ([NewDatasetOf] makes one
// of slices); [Optimizer] does the same in a loop that the program writes, with [OptResult] for
// loss and accuracy. Below these, [Graph.Backward] adds the gradients to a graph, and
// [Context.OptStepAdamW] or [Context.OptStepSGD] the step: see the example of Graph.Backward. The
// program sets initial values: weights of a hidden layer must differ, see [Tensor.SetNormal];
// [Context.Params] lists all parameters. An op without a backward is documented as such, and is an
// error before anything runs if a parameter needs its gradient. Of the activations, Relu, Silu,
// Softplus, Expm1 and SwiGLU with two operands can be trained. The packages llm/lora and llm/train
// fine-tune language models, with a backward pass of their own that is faster and takes less
// memory.
//
// # Lifetimes
//
// Contexts, buffers, backends, allocators and schedulers have a Close, which never fails and may be
// called twice, in any order. Objects in use are freed when the use ends: closing a backend during
// a computation lets the computation finish. Using a closed object returns [ErrClosed]; closing a
// buffer, or the allocator of a graph, makes its tensors unallocated. A tensor or graph of a closed
// context keeps only its shape. For a closed object, methods without an error, such as
// [Tensor.NumBytes] or [Scheduler.NumGraphSplits], return the zero value (0, false, "" or nil), and
// setters do nothing.
//
// The garbage collector closes objects dropped without Close, and logs a warning (see [SetLogger]).
// [OpenObjects] counts the open objects.
//
// # Go functions in C's place
//
// [Context.Custom] and [Context.MapCustom] make an op of a [CustomFunc], which the threads of the
// CPU backend call. [Scheduler.SetEvalCallback] shows the results of a graph as they are computed,
// [Scheduler.Profile] measures the time of each op, and [Graph.CompareBackends] finds where two
// backends differ. An error or a panic of such a function is the error of the computation. The
// function lives as long as the object that it was given to, and may run on any thread.
//
// # Goroutines
//
// All types are safe for concurrent use. Computations on one backend run one at a time, and so do
// changes and computations of one graph: to compute concurrently, use a backend, a graph and an
// allocator per goroutine; they can share weights. The data of a tensor is not locked: do not write
// data that another goroutine reads or computes with.
//
// Cancelling the [context.Context] of a computation stops it before the next
// op, with the cause; backend and graph stay usable.
//
// # What it cannot catch
//
// Ops are checked in Go, and failed assertions of ggml on the calling thread become errors; such a
// failure inside a computation leaves the backend unusable ([ErrBroken]). No misuse of this package
// is known to crash the process except:
//
//   - row indices out of range for [Context.GetRows], [Context.SetRows] and similar ops which the
//     caller wrote into the memory of a GPU. Indices in system memory are checked before each
//     compute, and indices computed by the graph during it, by an op on the CPU;
//   - a failed assertion, or lack of memory, on a worker thread of a backend, or in the
//     driver of a GPU;
//   - runtime.Goexit, for example by testing.T.FailNow, in a function that ggml
//     calls: a [CustomFunc] or another callback. Panics there are errors;
//   - reading a memory-mapped GGUF file that another program truncates;
//   - a plugin that was built for another version of ggml.
package ggml
