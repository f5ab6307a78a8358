// Package exclusive reports concurrent calls on a value that belongs to one goroutine.
package exclusive

import (
	"fmt"
	"sync/atomic"
)

// An Access is held by the call that uses a value. The zero value is free. It is safe for
// concurrent use.
type Access struct {
	held    atomic.Bool
	refused atomic.Pointer[error] // error of Try
}

// Acquire acquires a value, such as a Session, for a method, such as "Sequence.Decode", until
// Release. It fails if another call holds it, or Try has refused a call before.
func (a *Access) Acquire(method, value string) error {
	if err := a.Err(); err != nil {
		return err
	}
	if !a.held.CompareAndSwap(false, true) {
		return inUse(method, value)
	}
	return nil
}

// Try is Acquire for a method that returns no error: if it refuses the call, every later Acquire fails.
func (a *Access) Try(method, value string) bool {
	if a.held.CompareAndSwap(false, true) {
		return true
	}
	err := inUse(method, value)
	a.refused.CompareAndSwap(nil, &err)
	return false
}

// Release frees the value for other calls.
func (a *Access) Release() { a.held.Store(false) }

// Err returns the error of the first call that Try has refused.
func (a *Access) Err() error {
	if err := a.refused.Load(); err != nil {
		return *err
	}
	return nil
}

func inUse(method, value string) error {
	return fmt.Errorf("%s: another call is using the %s, and only one goroutine may at a time; give each goroutine its own, or let them take turns with a mutex", method, value)
}
