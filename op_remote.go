package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcwire"
)

// A RemoteOp is a [NativeOp] that servers of package rpc compute for their clients.
type RemoteOp struct {
	*NativeOp
	// Rebuild builds a tensor of the op from what a client's graph stores of it, by the function that checks the operands of
	// such ops. It gets what a client may have forged, and returns nil or a poisoned tensor if that is invalid. The server
	// refuses a tensor that differs from the client's description.
	Rebuild func(c *Context, n NativeNode) *Tensor
	// Scratch returns the most memory in bytes that each thread takes beside the operands and the result; nil means none.
	Scratch func(n NativeNode) int64
}

// A NativeNode is what a graph stores of a native op's tensor.
type NativeNode struct {
	Operands []*Tensor
	Params   [MaxNativeParams]byte
}

var remoteOps struct {
	mu    sync.Mutex
	lists []func() []RemoteOp
	ops   []RemoteOp        // of the lists that have been called
	names map[string]bool   // of ops
	ids   map[uint64]uint64 // by the address of the function: what stands for it in messages
}

// RegisterRemoteOps makes native ops known to clients and servers of this process: both ends of a connection compute those
// whose names both know. ops returns those that the processor and libraries of this process support; it is called once,
// when the first server starts or is added. Of ops with the same name the first counts. Plumbing, for authors of ops, see
// [NativeOp].
func RegisterRemoteOps(ops func() []RemoteOp) {
	remoteOps.mu.Lock()
	defer remoteOps.mu.Unlock()
	if ops != nil {
		remoteOps.lists = append(remoteOps.lists, ops)
	}
}

// RemoteOps lists the ops that [RegisterRemoteOps] has registered.
func RemoteOps() []RemoteOp {
	r := &remoteOps
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.names, r.ids = map[string]bool{}, map[uint64]uint64{}
	}
	for ; len(r.lists) > 0; r.lists = r.lists[1:] {
		for _, op := range r.lists[0]() {
			if op.NativeOp == nil || op.Rebuild == nil || r.names[op.Name] || op.register() != nil {
				continue
			}
			r.names[op.Name] = true
			r.ids[uint64(uintptr(op.Func))] = rpcwire.OpID(op.Name)
			r.ops = append(r.ops, op)
		}
	}
	return r.ops[:len(r.ops):len(r.ops)]
}

// remoteID returns what stands for a function's address in messages; 0 if servers do not compute its op.
func remoteID(function uint64) uint64 {
	remoteOps.mu.Lock()
	defer remoteOps.mu.Unlock()
	return remoteOps.ids[function]
}

// shareOps notes that a server's device computes the native ops of these names.
func (d *Device) shareOps(names []string) {
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	for _, op := range RemoteOps() {
		if known[op.Name] {
			C.goggml_share_native(d.d, C.ggml_custom_op_t(op.Func))
		}
	}
}

// HasNativeOp reports whether the device computes a native op: a CPU of this process computes all, a server's device those
// that [RegisterRemoteOps] has registered in both processes, and no other device any.
func (d *Device) HasNativeOp(op *NativeOp) bool {
	switch {
	case d.isZero() || op == nil || op.Func == nil:
		return false
	case d.Type() == CPU:
		return true
	}
	return bool(C.goggml_shares_native(d.d, C.ggml_custom_op_t(unsafe.Pointer(op.Func))))
}
