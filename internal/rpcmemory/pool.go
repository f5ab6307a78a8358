// Package rpcmemory counts the memory that the clients of an RPC server have: the data of their tensors, and the objects
// that the server keeps for them.
package rpcmemory

import (
	"math"
	"sync"
)

// Reserve is the number of bytes for objects beside a pool's limit, for clients whose data fills the limit.
const Reserve = 16 << 20

// maxGarbage is how many bytes of dropped objects may wait to be collected, beside the limit too.
const maxGarbage = 8 << 20

// A Pool is memory that clients share.
type Pool struct {
	limit   int64 // 0 for none
	collect func()

	mu      sync.Mutex
	data    int64
	objects int64
	garbage int64 // dropped, and not collected
}

// New makes a pool of limit bytes, 0 for any number. collect gives the memory of dropped objects back to the system.
func New(limit int64, collect func()) *Pool { return &Pool{limit: limit, collect: collect} }

// Limit is how many bytes of data there can be, 0 for any number.
func (p *Pool) Limit() int64 { return p.limit }

// Take reserves memory for data and objects, and reports whether there is as much.
func (p *Pool) Take(data, objects int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left(objects) < data {
		return false
	}
	p.data += data
	p.objects += objects
	return true
}

// left is how much more data there can be beside more objects; less than 0 where these are too many.
func (p *Pool) left(more int64) int64 {
	if p.limit == 0 {
		return math.MaxInt64
	}
	return p.limit - p.data - max(0, p.objects+more-Reserve)
}

// Free is how much more data there can be.
func (p *Pool) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.left(0))
}

// Give takes back data whose memory the system has again.
func (p *Pool) Give(data int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data -= data
}

// Drop takes back data and objects whose memory the system has again when it has been collected.
func (p *Pool) Drop(data, objects int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.garbage += data + objects; p.garbage > maxGarbage {
		p.collect()
		p.garbage = 0
	}
	p.data -= data
	p.objects -= objects
}
