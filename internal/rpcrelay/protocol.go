package rpcrelay

import (
	"encoding/binary"
	"math/bits"

	"github.com/goggml/ggml/internal/rpcwire"
)

type command = rpcwire.Command

const maxDevices = 1024 // per server: a larger number is invalid

// waitsForGraphs reports whether the reply comes after earlier graphs have been computed.
func waitsForGraphs(c command) bool {
	return c == rpcwire.GetTensor || c == rpcwire.GetTensor2D || c == rpcwire.CopyTensor || c == rpcwire.SetTensorHash
}

// replySize returns the size of the reply to a request with these last bytes; -1 if there is no
// reply.
func replySize(c command, last []byte) int64 {
	number := func(fromEnd int) int64 {
		if len(last) < fromEnd {
			return 0
		}
		return int64(binary.LittleEndian.Uint64(last[len(last)-fromEnd:]))
	}
	switch c {
	case rpcwire.AllocBuffer, rpcwire.GetDeviceMemory:
		return 16
	case rpcwire.GetAlignment, rpcwire.GetMaxSize, rpcwire.BufferGetBase, rpcwire.GetAllocSize:
		return 8
	case rpcwire.DeviceCount:
		return 4
	case rpcwire.SetTensorHash, rpcwire.CopyTensor, rpcwire.CommInit:
		return 1
	case rpcwire.GetTensor:
		return number(8)
	case rpcwire.GetTensor2D:
		return number(24) * number(16)
	}
	return -1
}

// accepts reports whether the client can process the reply: it divides by an alignment, stops at
// memory at 0, and asks each device for its properties.
func accepts(c command, reply []byte) bool {
	switch c {
	case rpcwire.GetAlignment:
		return bits.OnesCount64(binary.LittleEndian.Uint64(reply)) == 1
	case rpcwire.BufferGetBase:
		return binary.LittleEndian.Uint64(reply) != 0
	case rpcwire.DeviceCount:
		return binary.LittleEndian.Uint32(reply) <= maxDevices
	}
	return true
}

// synthesized returns the first number of the reply to a request with these first bytes, with which
// the client can continue.
func synthesized(c command, request []byte) uint64 {
	switch c {
	case rpcwire.GetAlignment, rpcwire.BufferGetBase:
		return 4096
	case rpcwire.GetMaxSize:
		return 1 << 62
	case rpcwire.SetTensorHash, rpcwire.CopyTensor:
		return 1 // done
	case rpcwire.GetAllocSize:
		if len(request) >= 56 { // device, id, type, buffer, ne, nb
			return uint64(binary.LittleEndian.Uint32(request[36:])) * uint64(binary.LittleEndian.Uint32(request[52:]))
		}
	}
	return 0
}
