// Package lifetime lets an object be closed at any time while others use it.
package lifetime

import "sync"

// A Lifetime counts the users of an object. What the object owns is freed when it is closed
// and the last user has left: Close never waits. The zero value is open and without users.
type Lifetime struct {
	mu     sync.Mutex
	users  int
	closed bool
	free   func() // once closed, until it was called
}

// Retain keeps the object until the matching Release; it reports false once it is closed.
func (l *Lifetime) Retain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.users++
	}
	return !l.closed
}

// Release ends a use.
func (l *Lifetime) Release() {
	l.mu.Lock()
	l.users--
	free := l.last()
	l.mu.Unlock()
	free()
}

// Close lets nobody in any more, and calls free when nobody uses the object: at once, or by
// the Release of the last user. Closing it again does nothing.
func (l *Lifetime) Close(free func()) {
	l.mu.Lock()
	if !l.closed {
		l.closed, l.free = true, free
	}
	last := l.last()
	l.mu.Unlock()
	last()
}

// last returns the function that frees a closed object without users, once.
func (l *Lifetime) last() func() {
	if !l.closed || l.users > 0 || l.free == nil {
		return func() {}
	}
	free := l.free
	l.free = nil
	return free
}

// IsClosed reports whether Close was called.
func (l *Lifetime) IsClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
