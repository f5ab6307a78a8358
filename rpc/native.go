package rpc

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"unsafe"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rebuild"
	"github.com/goggml/ggml/internal/rpcwire"
	_ "github.com/goggml/ggml/kernels" // its ops
)

// Native ops are C functions in this process, registered by [ggml.RegisterRemoteOps]. A client's tensor of one has
// the ID of its name in place of the function's address.

// nativeOps maps IDs to ops.
var nativeOps = sync.OnceValue(func() map[uint64]*ggml.RemoteOp {
	ops := map[uint64]*ggml.RemoteOp{}
	for _, op := range ggml.RemoteOps() {
		ops[rpcwire.OpID(op.Name)] = &op
	}
	return ops
})

// nativeOps answers with the names of a device's native ops: all for a CPU, none for others.
func (s *session) nativeOps() error {
	var request [rpcwire.HeaderSize + 4]byte
	if err := s.read(request[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(request[1:]) != 4 {
		return rpcwire.NativeOps.CheckSize(binary.LittleEndian.Uint64(request[1:]), 0)
	}
	d, err := s.device(request[rpcwire.HeaderSize:])
	if err != nil {
		return err
	}
	var names []string
	if d.Type() == ggml.CPU {
		for _, op := range ggml.RemoteOps() {
			names = append(names, op.Name)
		}
	}
	if err := s.reply([]byte(strings.Join(names, "\n"))); err != nil {
		return err
	}
	return errEnd
}

// nativeOp returns the native op of a tensor, or nil.
func (b *builder) nativeOp(said *rpcwire.Tensor) *ggml.RemoteOp {
	if opName(said) != "custom" || b.session.server.devices[b.m.Device].Type() != ggml.CPU {
		return nil
	}
	return nativeOps()[uint64(uint32(said.Params[0]))|uint64(uint32(said.Params[1]))<<32]
}

// native builds the tensor of a native op at an index.
func (b *builder) native(at int, op *ggml.RemoteOp, n rebuild.Node) error {
	function := uint64(uintptr(op.Func))
	n.Params[0], n.Params[1] = int32(function), int32(function>>32)
	var of ggml.NativeNode
	of.Operands = n.Sources
	for len(of.Operands) > 0 && of.Operands[len(of.Operands)-1] == nil {
		of.Operands = of.Operands[:len(of.Operands)-1]
	}
	for _, x := range of.Operands {
		if x == nil {
			return errors.New("an operand is missing")
		}
	}
	params := unsafe.Slice((*byte)(unsafe.Pointer(&n.Params)), unsafe.Sizeof(n.Params))
	copy(of.Params[:], params[ggml.NativeParamsOffset:])
	t := op.Rebuild(b.c, of)
	if err := b.c.Err(); err != nil {
		return err
	}
	if t == nil {
		return errors.New("it has other operands")
	}
	if op.Scratch != nil {
		b.scratch = max(b.scratch, op.Scratch(of))
	}
	return b.take(at, t, n)
}
