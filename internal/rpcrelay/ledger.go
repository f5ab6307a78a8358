package rpcrelay

import (
	"encoding/binary"
	"io"
	"sync"
)

// A ledger counts what a client has allocated on each device of a server, so that it has no more than a limit
// and sees no more than the rest of it.
type ledger struct {
	limit uint64

	mu      sync.Mutex
	used    map[uint32]uint64     // by device
	buffers map[uint64]allocation // by their address on the server
	awaited []awaited             // replies, in their order
}

type allocation struct {
	device uint32
	size   uint64
}

type awaited struct {
	cmd command
	allocation
}

func newLedger(limit int64) *ledger {
	return &ledger{limit: uint64(limit), used: map[uint32]uint64{}, buffers: map[uint64]allocation{}}
}

// note takes down a request that begins with body. It reports whether the limit forbids it: then the server does not
// get it.
func (l *ledger) note(cmd command, body []byte) (refused bool) {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var of allocation
	switch {
	case cmd == allocBuffer && len(body) == 12:
		of = allocation{binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint64(body[4:])}
		if of.size > l.left(of.device) {
			return true
		}
	case cmd == getDeviceMemory && len(body) == 4:
		of.device = binary.LittleEndian.Uint32(body)
	case cmd == freeBuffer && len(body) == 8:
		address := binary.LittleEndian.Uint64(body)
		freed := l.buffers[address]
		l.used[freed.device] -= freed.size
		delete(l.buffers, address)
	}
	if cmd == hello || cmd.replySize(nil) >= 0 {
		l.awaited = append(l.awaited, awaited{cmd, of})
	}
	return false
}

func (l *ledger) left(device uint32) uint64 { return l.limit - min(l.limit, l.used[device]) }

// answered changes the reply to the next request that has one.
func (l *ledger) answered(reply []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.awaited) == 0 {
		return
	}
	next := l.awaited[0]
	l.awaited = l.awaited[1:]
	if len(reply) != 16 {
		return
	}
	switch next.cmd {
	case allocBuffer:
		if address := binary.LittleEndian.Uint64(reply); address != 0 {
			next.size = max(next.size, binary.LittleEndian.Uint64(reply[8:]))
			l.buffers[address] = next.allocation
			l.used[next.device] += next.size
		}
	case getDeviceMemory:
		free, total := binary.LittleEndian.Uint64(reply), binary.LittleEndian.Uint64(reply[8:])
		binary.LittleEndian.PutUint64(reply, min(free, l.left(next.device)))
		binary.LittleEndian.PutUint64(reply[8:], min(total, l.limit))
	}
}

// copyReplies forwards replies until the server ends.
func (l *ledger) copyReplies(client io.Writer, server io.Reader) error {
	var short [8 + 16]byte
	for {
		if _, err := io.ReadFull(server, short[:8]); err != nil {
			return err
		}
		size, message := binary.LittleEndian.Uint64(short[:8]), short[:8]
		if size == 16 {
			message = short[:]
			if _, err := io.ReadFull(server, short[8:]); err != nil {
				return err
			}
			size = 0
		}
		l.answered(message[8:])
		if _, err := client.Write(message); err != nil {
			return err
		}
		if _, err := io.CopyN(client, server, int64(size)); err != nil {
			return err
		}
	}
}

// refusal is the reply to an allocation that fails.
func refusal() []byte {
	reply := make([]byte, 8+16)
	reply[0] = 16
	return reply
}
