// Package faulty has faults for random calls to find: each function and type is a fault, or resembles one.
package faulty

import (
	"sync"

	"github.com/goggml/ggml"
)

// A Box stays locked when a function panics.
type Box struct {
	mu sync.Mutex
	n  int
}

// NewBox makes a box.
func NewBox() *Box { return &Box{n: 1} }

// Do calls f with the content.
func (b *Box) Do(f func(n int)) {
	if f == nil {
		return
	}
	b.mu.Lock()
	f(b.n)
	b.mu.Unlock()
}

// Len waits forever if Do has left the lock.
func (b *Box) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// Each calls f in a goroutine, where nothing recovers what f throws.
func Each(f func(n int)) {
	if f == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(1)
	}()
	<-done
}

// Count never returns if n is large.
func Count(n int) int {
	i := 0
	for i < n {
		i = (i + 1) % 1000
	}
	return i
}

// Open leaves a context open when it fails.
func Open(size int) (*ggml.Context, error) {
	c := ggml.NewContext()
	if c.NewTensor(ggml.F32, int64(size)); c.Err() != nil {
		return nil, c.Err()
	}
	return c, nil
}

// Watch leaks a goroutine.
func Watch(n int) {
	if n < 0 {
		go func() { select {} }()
	}
}

// Row returns element i of the list without checking i.
func Row(list []int, i int) int { return list[i] }

// At returns element i of the list. As a slice does, it panics if there is none.
func At(list []int, i int) int { return list[i] }

// A Counter counts. Concurrent calls are a data race.
type Counter struct{ n int }

// NewCounter makes a counter.
func NewCounter() *Counter { return &Counter{n: 1} }

// Add counts.
func (c *Counter) Add() int { c.n++; return c.n }

// A Cursor counts too. It is not safe for concurrent use.
type Cursor struct{ n int }

// NewCursor makes a cursor.
func NewCursor() *Cursor { return &Cursor{n: 1} }

// Next counts.
func (c *Cursor) Next() int { c.n++; return c.n }
