// Package testhook gives the tests of package ggml, which are all external, and of llm access to internals.
// Internal test packages would compile package ggml, and all its importers, a second time.
package testhook

import (
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// Unchecked disables the checks of ops. The process may not survive it: set it in a subprocess, and in one
// goroutine.
var Unchecked bool

// RefuseAs makes devices other than the CPU refuse what a backend's devices refuse; "" undoes it.
var RefuseAs func(backend string)

// Lack makes devices other than the CPU lack ops, by ggml's names such as ROPE; no names undo it.
var Lack func(ops ...string)

// Async makes new backends asynchronous, as some devices are.
var Async bool

// NoMemory makes the allocation of new contexts fail.
var NoMemory bool

// RPCMemory, unless nil, allocates the buffers of an RPC server's clients on the CPU.
var RPCMemory func(size int64) (memory []byte, free func(), err error)

// RPCStall is how long a server may not answer; 0 for the default.
var RPCStall time.Duration

// MPIJoin is the time between checks for processes that have not joined; MPIGrace limits the wait for processes
// that are to stop. 0 stands for the default.
var MPIJoin, MPIGrace time.Duration

// Built is called after an op was built, on the building goroutine.
var Built func()

// Routed is called with the experts that a router chose, and may change them. Graphs that are built while it is nil call
// nothing.
var Routed func(experts []int32)

// SaveWaits are the waits of a run before it retries a failed save.
var SaveWaits = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// PipeWait limits a writer's wait for the reader of a pipe.
var PipeWait = 10 * time.Second

// CheckVersion, MinimumVersion and CheckBuildTags are functions of package ggml.
var (
	CheckVersion   func(version string) error
	MinimumVersion func() (string, error)
	CheckBuildTags func(backendOfTag map[string]string) error
)

// FaultIn is a function of package ggml, on Linux.
var FaultIn func(memory []byte)

// System is the folder in which drivers of GPUs are searched; PluginFolders changes the folders of plugins.
var (
	System        fs.FS = os.DirFS("/")
	PluginFolders       = func(folders []string) []string { return folders }
)

// CausalSoftMax is a function of package kernels: a part of causal attention without a GEMM library.
var CausalSoftMax any

// A MicroKernel of package kernels multiplies panels of integers of some bits by some instructions.
type MicroKernel struct {
	Instructions string
	Bits         int
	Emulated     bool // its speed says nothing
	// Product returns the product of panels, A [steps, 32] and B [steps, 12], in steps of four 8-bit or two 16-bit integers,
	// plus first: [12, 32]. In 8 bits A is biased by 128.
	Product func(a, b []uint32, first [12]int32) []float32
	// Repeat computes the product a number of times.
	Repeat func(times int, a, b []uint32)
}

// MicroKernels is a function of package kernels: the micro-kernels that the processor can execute, and emulated ones.
var MicroKernels func() []MicroKernel

// HostMemory is the memory that package model finds available for experts; 0 for the system's.
var HostMemory int64

// RestoreStep lets sequences of package infer restore their states only at its multiples; 0 for every position.
var RestoreStep int

// Submissions counts the computations that engines of package device have submitted, Reads the reads of
// tensors, and BytesRead their bytes.
var Submissions, Reads, BytesRead atomic.Int64

// Submitting, with the graphs, and Computed are called before and after each such computation; nil for none.
var (
	Submitting func(graphs ...any)
	Computed   func()
)

// Allocating is called before a scheduler of such an engine allocates a graph. Scheduled is called, also with
// the scheduler, before it computes one. nil for none.
var (
	Allocating func(graph any)
	Scheduled  func(scheduler, graph any)
)
