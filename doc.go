// Package ggml is a binding of the C tensor library ggml: tensors, graphs of
// operations on them, the backends that compute these, and the GGUF file
// format.
//
// # Concepts
//
// A [Context] owns tensors and graphs. A [Tensor] is a type and a shape, and
// either a place for data or the result of an op. An op is a method of a
// context; it computes nothing, but notes that the result depends on its
// operands. A [Graph] lists tensors in the order of computation. A [Buffer]
// holds the data of tensors in the memory of a [Device]; a [Backend] computes
// graphs on a device. So every program goes through the same steps:
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
// A shape is [ne0, ne1, ne2, ne3], and ne0 is the fastest dimension: the
// elements of a row are adjacent, and a row has ne0 elements. What other
// libraries call a matrix of 2 rows and 3 columns is the shape [3, 2] here.
// Missing dimensions are 1: trailing ones may be left out where a shape is
// given, and are where one is printed. Slices of elements, as Write takes and Read
// returns them, are in this order too.
//
// [Context.MulMat] takes both factors as rows along the summed dimension:
// a [k, m] and b [k, n] give [m, n].
//
// A view (the result of [Context.View], [Context.Reshape],
// [Context.Permute], [Context.Transpose], or an op that works in place) has
// the memory of another tensor. Each op says which layouts it takes;
// [Context.Cont] makes a copy without gaps and in order.
//
// # Building graphs and errors
//
// Ops return no error. The first one that fails is kept in the context; its result stands for the
// failure, may be passed on, and makes whatever it is passed to fail in the same way. Allocating,
// computing, reading and writing return that first error, so that it cannot be missed, and
// [Context.Err] returns it earlier. It is an [*OpError], which names the op, its operands with
// types and shapes, what is wrong, and the line of the call:
//
//	ggml: mul_mat(w f32[4, 3], x f32[5, 2]): ne0 must be equal: w has 4, x has 5 (at model.go:42)
//
// What other functions refuse is named after them:
//
//	ggml: Write(x f32[5, 2]): the tensor has 10 elements, the slice 8 (at model.go:43)
//
// The format %v prints a tensor as the operands there, %+v with its values too.
//
// Everything else returns its error. Test for [ErrClosed], [ErrZeroValue],
// [ErrBusy], [ErrNotLoaded], [ErrNotAllocated], [ErrOutOfMemory], [ErrBroken] and
// [ErrDisconnected] with errors.Is.
//
// # Memory
//
// [Context.Allocate] gives every tensor of a context memory of its own: do so
// with weights and inputs. A [GraphAllocator] plans the memory of a graph, and
// lets results that are needed no more share it with later ones. Hence the
// results to be read are marked by [Tensor.SetOutput] ([Context.NewGraph] does
// so), and leaves in such memory by [Tensor.SetInput], and written before each
// compute. Allocating the next graph makes the tensors of the last one
// unallocated. Contexts are cheap: keep weights in one context, and make
// another for each graph that changes.
//
// To know the need in advance, [GraphAllocator.Reserve] plans the memory of the largest graph
// without computing it, and [GraphAllocator.Size] reports it; [DeviceProperties] report the
// device's memory. [MemoryReport] lists what this process holds on each device, by kind. A context
// that would not fit is an [ErrOutOfMemory], and nothing of it stays allocated. Weights in a file
// are best mapped ([GGUF.Load] does so on the CPU): they count only as far as they are read, and
// the system can drop them again.
//
// # Devices and build tags
//
// Backends are plugins, found when the program starts to use them:
// [LoadBackends] says where. [Devices] lists what there is. A program without
// build tags uses whatever is installed; with the tag cpu only the CPU, and
// with cuda, metal or vulkan it fails at start when that backend or its device
// is missing. [CUDADevices], [MetalDevices], [VulkanDevices] and [BLASDevice]
// are in every build, and say how to install a backend that is not there; so
// does [UnusedGPU], of a machine that has a GPU with its driver.
//
// [AddRPCServer] adds the devices of another process or machine, which offers
// them by package rpc; all that is said of devices holds for them. When the
// server dies, using them is an [ErrDisconnected], and the program goes on.
//
// # Several devices
//
// A [Scheduler] computes a graph on several backends, given in the order of
// preference with the CPU last: each op runs where its weights are, if it is
// supported there, else on the next backend that supports it. It splits the
// graph accordingly ([Scheduler.NumGraphSplits]), and copies what crosses from one
// part to the next. So the usual way to divide a model is to load its layers
// into buffers of different devices; [Scheduler.SetTensorBackend] moves a
// single op. [Scheduler.TensorBackend] reports where an op went,
// [Scheduler.Profile] how long it took there.
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
// Parameters are leaves marked by [Tensor.SetParam], a loss is a scalar marked
// by [Tensor.SetLoss]. [Fit] trains the parameters that outputs depend on with
// the samples of a [Dataset] ([NewDatasetOf] makes one of slices); [Optimizer]
// is the same for a loop of one's own, with [OptResult] for loss and accuracy.
// Below these, [Graph.Backward] adds the gradients to a graph, and
// [Context.OptStepAdamW] or [Context.OptStepSGD] the step: see the example of
// Graph.Backward. Start values are the caller's: weights of a hidden layer must
// differ, see [Tensor.SetNormal]; [Context.Params] lists them all. An op without
// a backward says so, and is an error before anything runs, if a parameter is
// behind it; of the activations, Relu, Silu, Softplus, Expm1 and the gate SwiGLU
// of two operands can be trained. The packages llm/lora and llm/train fine-tune
// language models, with a backward pass of their own that is faster and takes
// less memory.
//
// # Lifetimes
//
// Contexts, buffers, backends, allocators and schedulers have a Close, which
// never fails and may be called twice, in any order. Objects that are in use
// are freed when the use ends: closing a backend during a computation lets
// that finish. The use of a closed object is an [ErrClosed]; closing a buffer,
// or the allocator of a graph, makes the tensors in it unallocated. A tensor
// or graph of a closed context keeps nothing but its shape. What returns no error,
// such as [Tensor.NumBytes] or [Scheduler.NumGraphSplits], answers for a closed object
// with the zero value (0, false, "" or nil), and what sets something does nothing.
//
// The garbage collector closes what was dropped without Close, and logs a
// warning (see [SetLogger]). [OpenObjects] counts what is open.
//
// # Go functions in C's place
//
// [Context.Custom] and [Context.MapCustom] make an op of a [CustomFunc], which
// the threads of the CPU backend call. [Scheduler.SetEvalCallback] shows the
// results of a graph as they are computed, [Scheduler.Profile] reports which ops
// take the time, and [Graph.CompareBackends] where two backends differ. What such a
// function returns or panics with is the error of the computation. It lives as
// long as the object that it was given to, and may run on any thread.
//
// # Goroutines
//
// All types are safe for concurrent use. Computations on one backend wait for
// each other, and so do changes and computations of one graph: for more at
// once, take a backend, a graph and an allocator for each goroutine; they can
// share weights. The data of a tensor is not locked: do not write what another
// goroutine reads or computes with.
//
// Cancelling the [context.Context] of a computation stops it before the next
// op, with the cause; backend and graph stay usable.
//
// # What it cannot catch
//
// Ops are checked in Go, and failed assertions of ggml on the calling
// thread are turned into errors; such a failure inside a computation leaves
// the backend with [ErrBroken]. No misuse of this package is known to crash
// the process except:
//
//   - row indices out of range for [Context.GetRows], [Context.SetRows] and
//     the like which the caller wrote into the memory of a GPU. Those in system
//     memory are checked before each compute, and those that the graph computes
//     on the way, by an op of their own on the CPU;
//   - an assertion, or no memory, on a worker thread of a backend, or in the
//     driver of a GPU;
//   - runtime.Goexit, and so testing.T.FailNow, in a function that ggml
//     calls: a [CustomFunc] or another callback. Panics there are errors;
//   - data of a GGUF file that is mapped into memory, when another program
//     truncates the file;
//   - a plugin that was built for another version of ggml.
package ggml
