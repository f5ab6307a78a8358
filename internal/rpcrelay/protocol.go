package rpcrelay

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The version of ggml's RPC protocol that relays speak.
const Major, Minor = 8, 0

// A command is the first byte of a request; 8 bytes of length follow, and that
// many bytes. A reply is 8 bytes of length, and that many bytes.
type command byte

const (
	allocBuffer     command = 0
	getAlignment    command = 1
	getMaxSize      command = 2
	bufferGetBase   command = 3
	freeBuffer      command = 4
	bufferClear     command = 5
	setTensor       command = 6
	setTensorHash   command = 7
	getTensor       command = 8
	copyTensor      command = 9
	graphCompute    command = 10
	getDeviceMemory command = 11
	initTensor      command = 12
	getAllocSize    command = 13
	hello           command = 14 // the handshake
	deviceCount     command = 15
	graphRecompute  command = 16
	memsetTensor    command = 17
	setTensor2D     command = 18
	getTensor2D     command = 19
	commInit        command = 20 // of a group of servers that sum over each other's tensors
	commAllReduce   command = 21
	commFree        command = 22
)

const (
	capabilitiesSize   = 24 // bytes in both messages of the handshake: transports other than TCP
	handshakeReplySize = 8 + 4 + capabilitiesSize

	maxDevices = 1024 // of a server: more are taken for a fault

	tensorSize = 296       // bytes of a tensor's description
	maxGraph   = 256 << 20 // bytes of a graph: 900,000 tensors
)

// requestSizes are the bytes of requests that have always as many.
var requestSizes = map[command]uint64{
	allocBuffer: 12, getAlignment: 4, getMaxSize: 4, bufferGetBase: 8, freeBuffer: 8, bufferClear: 9,
	setTensorHash: tensorSize + 16, getTensor: tensorSize + 16, copyTensor: 2 * tensorSize, getDeviceMemory: 4,
	initTensor: tensorSize, getAllocSize: 4 + 11*tensorSize, hello: capabilitiesSize, deviceCount: 0,
	graphRecompute: 12, memsetTensor: tensorSize + 17, getTensor2D: tensorSize + 32, commInit: 80,
	commAllReduce: 4 + tensorSize, commFree: 4,
}

// checkSize refuses a request of a size that ggml's server does not expect. It
// makes room for as much as it is told of data, of which there are at most maxData.
func (c command) checkSize(size uint64, maxData int64) error {
	least, most := requestSizes[c], requestSizes[c]
	switch _, known := requestSizes[c]; {
	case c == setTensor:
		least, most = tensorSize+8, tensorSize+8+uint64(maxData)
	case c == setTensor2D:
		least, most = tensorSize+32, tensorSize+32+uint64(maxData)
	case c == graphCompute:
		least, most = 20, maxGraph
	case !known:
		return fmt.Errorf("there is no command %d", c)
	}
	if size < least || size > most {
		return fmt.Errorf("a request of %d bytes; command %d takes %d to %d", size, c, least, most)
	}
	return nil
}

// computes reports whether the server works at the request when it has it.
func (c command) computes() bool {
	return c == graphCompute || c == graphRecompute || c == commAllReduce
}

// waitsForGraphs reports whether the reply comes after the graphs before it.
func (c command) waitsForGraphs() bool {
	return c == getTensor || c == getTensor2D || c == copyTensor || c == setTensorHash
}

// replySize returns the size of the reply, to a request with these last bytes;
// -1 when there is none.
func (c command) replySize(last []byte) int64 {
	number := func(fromEnd int) int64 {
		if len(last) < fromEnd {
			return 0
		}
		return int64(binary.LittleEndian.Uint64(last[len(last)-fromEnd:]))
	}
	switch c {
	case allocBuffer, getDeviceMemory:
		return 16
	case getAlignment, getMaxSize, bufferGetBase, getAllocSize:
		return 8
	case deviceCount:
		return 4
	case setTensorHash, copyTensor, commInit:
		return 1
	case getTensor:
		return number(8)
	case getTensor2D:
		return number(24) * number(16)
	}
	return -1
}

// accepts reports whether the client survives the reply: it divides by an
// alignment, stops at memory at 0, and asks each device for its properties.
func (c command) accepts(reply []byte) bool {
	switch c {
	case getAlignment:
		return bits.OnesCount64(binary.LittleEndian.Uint64(reply)) == 1
	case bufferGetBase:
		return binary.LittleEndian.Uint64(reply) != 0
	case deviceCount:
		return binary.LittleEndian.Uint32(reply) <= maxDevices
	}
	return true
}

// synthesized returns the first number of the reply to a request with these
// first bytes, with which the client goes on.
func (c command) synthesized(request []byte) uint64 {
	switch c {
	case getAlignment, bufferGetBase:
		return 4096
	case getMaxSize:
		return 1 << 62
	case setTensorHash, copyTensor:
		return 1 // done
	case getAllocSize:
		if len(request) >= 56 { // device, id, type, buffer, ne, nb
			return uint64(binary.LittleEndian.Uint32(request[36:])) * uint64(binary.LittleEndian.Uint32(request[52:]))
		}
	}
	return 0
}
