// Package testhook lets the tests of package ggml, which are all external, and of llm observe what
// is internal. An internal test package would compile package ggml, and all that imports it, once
// more.
package testhook

import (
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// Unchecked makes ops pass on what they would refuse. The process may not
// survive it: set it in a subprocess, and in one goroutine.
var Unchecked bool

// RefuseAs makes devices other than the CPU refuse what a backend's devices refuse; "" ends it.
var RefuseAs func(backend string)

// Lack makes devices other than the CPU lack ops by their names in ggml, such as ROPE; none ends it.
var Lack func(ops ...string)

// Async makes new backends ones that work asynchronously, as some devices do.
var Async bool

// NoMemory leaves new contexts without memory.
var NoMemory bool

// RPCMemory makes the buffers of an RPC server's clients on the CPU, where it is not nil.
var RPCMemory func(size int64) (memory []byte, free func(), err error)

// RPCStall is for how long a server may not answer; 0 for as long as usual.
var RPCStall time.Duration

// MPIJoin is the time between looks for processes that have not joined; MPIGrace bounds the wait for processes that are
// to stop. 0 for the usual time.
var MPIJoin, MPIGrace time.Duration

// Built is called after an op was built, on the goroutine that builds it.
var Built func()

// SaveWaits are for how long a run waits before it tries a save again.
var SaveWaits = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// PipeWait is for how long a writer waits for the reader of a pipe.
var PipeWait = 10 * time.Second

// CheckVersion, MinimumVersion and CheckBuildTags are functions of package ggml.
var (
	CheckVersion   func(version string) error
	MinimumVersion func() (string, error)
	CheckBuildTags func(backendOfTag map[string]string) error
)

// FaultIn is a function of package ggml, on Linux.
var FaultIn func(memory []byte)

// System is where drivers of GPUs are looked for, and PluginFolders changes where their plugins are.
var (
	System        fs.FS = os.DirFS("/")
	PluginFolders       = func(folders []string) []string { return folders }
)

// CausalSoftMax is a function of package kernels: a part of causal attention where there is no GEMM library.
var CausalSoftMax any

// RestoreStep makes sequences of package infer ones whose states can be restored at its
// multiples alone; 0 for every position.
var RestoreStep int

// Submissions counts the computations that engines of package device have handed over, Reads how often tensors were
// read, and BytesRead how much of them.
var Submissions, Reads, BytesRead atomic.Int64

// Submitting and Computed are called before and after each such computation, the former with its graphs; nil for nothing.
var (
	Submitting func(graphs ...any)
	Computed   func()
)

// Allocating is called before a scheduler of such an engine gives memory to a graph, and Scheduled, with the scheduler
// too, before it computes one; nil for nothing.
var (
	Allocating func(graph any)
	Scheduled  func(scheduler, graph any)
)
