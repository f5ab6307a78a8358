// Package rpcwire is the protocol of ggml's RPC backend: its messages and their contents.
//
// A request is the byte of a command, 8 bytes of length, and that many bytes. A reply is 8 bytes of
// length, and that many bytes; some requests have none. Numbers are little-endian.
package rpcwire

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// The version of the protocol, spoken by ggml 1.0.
const Major, Minor, Patch = 10, 0, 0

// A Command is the first byte of a request.
type Command byte

// The commands.
const (
	AllocBuffer     Command = 0
	GetAlignment    Command = 1
	GetMaxSize      Command = 2
	BufferGetBase   Command = 3
	FreeBuffer      Command = 4
	BufferClear     Command = 5
	SetTensor       Command = 6
	SetTensorHash   Command = 7
	GetTensor       Command = 8
	CopyTensor      Command = 9
	GraphCompute    Command = 10
	GetDeviceMemory Command = 11
	InitTensor      Command = 12
	GetAllocSize    Command = 13
	Hello           Command = 14 // the handshake
	DeviceCount     Command = 15
	GraphRecompute  Command = 16
	MemsetTensor    Command = 17
	SetTensor2D     Command = 18
	GetTensor2D     Command = 19
	CommInit        Command = 20 // of a group of servers that sum over each other's tensors
	CommAllReduce   Command = 21
	CommFree        Command = 22

	// Of this project's server, which announces it in the handshake: the names of a device's native ops, in lines.
	NativeOps Command = 64
)

// Flags is a byte of the handshake's reply. ggml has flags in its lower half. The upper half, which ggml leaves 0, announces
// native ops.
type Flags byte

const (
	FlagsAt = 3 // index in the reply

	// HasCache asks clients to send the hash of large weights first.
	HasCache Flags = 1
	// NativeOpsVersion rises when what a name stands for changes: the operands or the parameters of an op.
	NativeOpsVersion = 1
)

// WithNativeOps adds a version of native ops to the flags; 0 means none.
func (f Flags) WithNativeOps(version byte) Flags { return f | Flags(version<<4) }

// HasNativeOps reports whether the server has native ops of this version.
func (f Flags) HasNativeOps() bool { return f>>4 == NativeOpsVersion }

// MaxNativeOps limits the names of a device's native ops in bytes.
const MaxNativeOps = 1 << 14

var names = [...]string{"alloc_buffer", "get_alignment", "get_max_size", "buffer_get_base", "free_buffer", "buffer_clear", "set_tensor",
	"set_tensor_hash", "get_tensor", "copy_tensor", "graph_compute", "get_device_memory", "init_tensor", "get_alloc_size", "hello",
	"device_count", "graph_recompute", "memset_tensor", "set_tensor_2d", "get_tensor_2d", "comm_init", "comm_allreduce", "comm_free"}

func (c Command) String() string {
	if c == NativeOps {
		return "native_ops"
	}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("command %d", byte(c))
}

// Sizes of messages in bytes.
const (
	HeaderSize         = 1 + 8 // of a request
	CapabilitiesSize   = 24    // in both handshake messages: transports other than TCP
	HandshakeReplySize = 8 + 4 + CapabilitiesSize
	SetTensorSize      = TensorSize + 1 + 8 // before the data: the tensor, a flag unused here, an offset
	SetTensor2DSize    = TensorSize + 4*8   // before the data
	GraphSize          = 4 + 8 + 4 + 4      // without nodes and tensors
	MaxGraphTensors    = 1 << 20            // of one graph
	maxGraphSize       = GraphSize + MaxGraphTensors*(8+TensorSize)
)

// requestSizes lists the sizes in bytes of fixed-size requests.
var requestSizes = map[Command]uint64{
	AllocBuffer: 12, GetAlignment: 4, GetMaxSize: 4, BufferGetBase: 8, FreeBuffer: 8, BufferClear: 9,
	SetTensorHash: TensorSize + 16, GetTensor: TensorSize + 16, CopyTensor: 2 * TensorSize, GetDeviceMemory: 4,
	InitTensor: TensorSize, GetAllocSize: 4 + 11*TensorSize, Hello: CapabilitiesSize, DeviceCount: 0,
	GraphRecompute: 12, MemsetTensor: TensorSize + 17, GetTensor2D: TensorSize + 32, CommInit: 80,
	CommAllReduce: 4 + TensorSize, CommFree: 4, NativeOps: 4,
}

// CheckSize refuses a request of a size that is invalid for its command, or with more data than
// maxData.
func (c Command) CheckSize(size uint64, maxData int64) error {
	least, most := requestSizes[c], requestSizes[c]
	switch _, known := requestSizes[c]; {
	case c == SetTensor:
		least, most = SetTensorSize, SetTensorSize+uint64(maxData)
	case c == SetTensor2D:
		least, most = SetTensor2DSize, SetTensor2DSize+uint64(maxData)+1
	case c == GraphCompute:
		least, most = GraphSize, maxGraphSize
	case !known:
		return fmt.Errorf("there is no %v", c)
	}
	if size < least || size > most {
		return fmt.Errorf("%v of %d bytes; it has %d to %d", c, size, least, most)
	}
	return nil
}

// Computes reports whether the server computes something for the request.
func (c Command) Computes() bool {
	return c == GraphCompute || c == GraphRecompute || c == CommAllReduce
}

// Reads reports whether the reply contains data of a tensor, which is available after earlier
// graphs have been computed.
func (c Command) Reads() bool { return c == GetTensor || c == GetTensor2D }

// OpID returns what stands for a native op in the parameters of its tensors, in place of a function's address.
func OpID(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Offsets in the description of a tensor.
const (
	opAt     = 8 + 4 + 8 + 2*4*maxDims
	paramsAt = opAt + 4
)

// TranslateNative replaces the functions' addresses in the tensors of an op, in the message of GraphCompute, by what id
// returns for them, and reports whether there are any.
func TranslateNative(message []byte, op uint32, id func(address uint64) uint64) (any bool) {
	if len(message) < GraphSize {
		return false
	}
	first := GraphSize + 8*uint64(binary.LittleEndian.Uint32(message[12:]))
	for ; first+TensorSize <= uint64(len(message)); first += TensorSize {
		t := message[first:]
		if binary.LittleEndian.Uint32(t[opAt:]) == op {
			any = true
			binary.LittleEndian.PutUint64(t[paramsAt:], id(binary.LittleEndian.Uint64(t[paramsAt:])))
		}
	}
	return any
}
