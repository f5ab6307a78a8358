package rpc

import (
	"math"
	"sync"
)

// reserve is the number of bytes for objects in addition to a pool's limit, for clients whose data
// fills the limit.
const reserve = 16 << 20

// maxGarbage is the maximum number of bytes of dropped, uncollected objects, also in addition to
// the limit.
const maxGarbage = 8 << 20

// A pool accounts for memory that clients share: the data of their tensors, and the objects that
// the server keeps for them.
type pool struct {
	limit   int64 // bytes of data; 0 means no limit
	collect func()

	mu      sync.Mutex
	data    int64
	objects int64
	garbage int64 // dropped, not yet collected
}

// newPool makes a pool of limit bytes, 0 for no limit. collect returns the memory of dropped
// objects to the system.
func newPool(limit int64, collect func()) *pool { return &pool{limit: limit, collect: collect} }

// take reserves memory for data and objects, and reports whether there is enough.
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

// left returns the available bytes for data if there are more objects; negative if these are too
// many.
func (p *pool) left(more int64) int64 {
	if p.limit == 0 {
		return math.MaxInt64
	}
	return p.limit - p.data - max(0, p.objects+more-reserve)
}

// free returns the available bytes for data.
func (p *pool) free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.left(0))
}

// give returns data whose memory is free again.
func (p *pool) give(data int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data -= data
}

// drop returns data and objects whose memory is free again after garbage collection.
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
