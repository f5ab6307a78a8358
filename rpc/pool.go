package rpc

import (
	"math"
	"sync"
)

// reserve is the number of bytes for objects beside a pool's limit, for clients whose data fills the limit.
const reserve = 16 << 20

// maxGarbage is how many bytes of dropped objects may wait to be collected, beside the limit too.
const maxGarbage = 8 << 20

// A pool is memory that clients share, and counts: the data of their tensors, and the objects that the server keeps for them.
type pool struct {
	limit   int64 // bytes of data; 0 for any number
	collect func()

	mu      sync.Mutex
	data    int64
	objects int64
	garbage int64 // dropped, and not collected
}

// newPool makes a pool of limit bytes, 0 for any number. collect gives the memory of dropped objects back to the system.
func newPool(limit int64, collect func()) *pool { return &pool{limit: limit, collect: collect} }

// take reserves memory for data and objects, and reports whether there is as much.
func (p *pool) take(data, objects int64) bool {
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
func (p *pool) left(more int64) int64 {
	if p.limit == 0 {
		return math.MaxInt64
	}
	return p.limit - p.data - max(0, p.objects+more-reserve)
}

// free is how much more data there can be.
func (p *pool) free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.left(0))
}

// give takes back data whose memory the system has again.
func (p *pool) give(data int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data -= data
}

// drop takes back data and objects whose memory the system has again when it has been collected.
func (p *pool) drop(data, objects int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.garbage += data + objects; p.garbage > maxGarbage {
		p.collect()
		p.garbage = 0
	}
	p.data -= data
	p.objects -= objects
}
