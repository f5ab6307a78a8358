// Package lifetime lets an object be closed at any time while others use it.
package lifetime

import "sync"

// A Lifetime counts the users of an object. The object's resources are freed when it is closed and
// the last user has released it: Close never waits. The zero value is open and without users.
type Lifetime struct {
	mu     sync.Mutex
	users  int
	closed bool
	free   func() // set by Close, nil again once called
}

// Retain keeps the object valid until the matching Release; it returns false if the object is
// closed.
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

// Close admits no new users, and calls free when the object has no users: at once, or in the
// Release of the last user. Closing again does nothing.
func (l *Lifetime) Close(free func()) {
	l.mu.Lock()
	if !l.closed {
		l.closed, l.free = true, free
	}
	last := l.last()
	l.mu.Unlock()
	last()
}

// last returns the function that frees a closed object without users; only once.
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
