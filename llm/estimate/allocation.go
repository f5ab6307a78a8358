package estimate

import (
	"cmp"
	"slices"
)

// An allocation simulates ggml's graph allocator on one device, including the gaps it leaves, for
// results with known lifetimes.
type allocation struct {
	lives []lifetime
	free  []extent // sorted by offset
	end   int64    // end of the memory used so far
}

// A lifetime is a block of memory in use from node `from` up to, but excluding, node `to`.
type lifetime struct {
	from, to int
	order    int // order of allocation among lifetimes with equal `from`
	size     int64
	over     int // index of the lifetime that ends at `from` and whose memory is reused in place; −1 if none
}

type extent struct{ at, size int64 }

// add appends a lifetime and returns its index.
func (a *allocation) add(l lifetime) int {
	a.lives = append(a.lives, l)
	return len(a.lives) - 1
}

// most returns the peak: the end of the highest byte ever in use.
func (a *allocation) most() int64 {
	begin, end := make([]int, len(a.lives)), make([]int, len(a.lives))
	for i := range a.lives {
		begin[i], end[i] = i, i
	}
	slices.SortStableFunc(begin, func(i, j int) int {
		return cmp.Or(cmp.Compare(a.lives[i].from, a.lives[j].from), cmp.Compare(a.lives[i].order, a.lives[j].order))
	})
	slices.SortStableFunc(end, func(i, j int) int { return cmp.Compare(a.lives[i].to, a.lives[j].to) })
	at, taken := make([]int64, len(a.lives)), make([]bool, len(a.lives))
	for _, l := range a.lives {
		if l.over >= 0 {
			taken[l.over] = true
		}
	}
	for _, i := range begin {
		l := a.lives[i]
		for len(end) > 0 && a.lives[end[0]].to <= l.from {
			if !taken[end[0]] {
				a.release(extent{at[end[0]], a.lives[end[0]].size})
			}
			end = end[1:]
		}
		if l.over >= 0 {
			at[i] = at[l.over]
			continue
		}
		at[i] = a.take(l.size)
	}
	return a.end
}

// take returns the offset of `size` free bytes: in the smallest gap that fits, or else at the end.
func (a *allocation) take(size int64) int64 {
	behind := extent{at: a.end}
	if n := len(a.free); n > 0 && a.free[n-1].at+a.free[n-1].size == a.end {
		behind, a.free = a.free[n-1], a.free[:n-1]
	}
	best := -1
	for i, f := range a.free {
		if f.size >= size && (best < 0 || f.size < a.free[best].size) {
			best = i
		}
	}
	at := behind.at
	if best >= 0 {
		f := &a.free[best]
		at = f.at
		if f.at, f.size = f.at+size, f.size-size; f.size == 0 {
			a.free = slices.Delete(a.free, best, best+1)
		}
	} else {
		a.end = max(a.end, at+size)
		behind = extent{at + size, max(0, behind.size-size)}
	}
	if behind.size > 0 {
		a.free = append(a.free, behind)
	}
	return at
}

// release frees an extent and merges it with adjacent gaps.
func (a *allocation) release(e extent) {
	i, _ := slices.BinarySearchFunc(a.free, e, func(f, e extent) int { return cmp.Compare(f.at, e.at) })
	a.free = slices.Insert(a.free, i, e)
	if i+1 < len(a.free) && e.at+e.size == a.free[i+1].at {
		a.free[i].size += a.free[i+1].size
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].at+a.free[i-1].size == e.at {
		a.free[i-1].size += a.free[i].size
		a.free = slices.Delete(a.free, i, i+1)
	}
}
