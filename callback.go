package ggml

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"weak"
)

// A callbackTable gives numbers to the objects with callbacks, for C. It holds weak references: the
// owner of a callback keeps it alive, so a callback that refers to its owner does not keep the
// owner from being collected.
type callbackTable[T any] struct {
	last    atomic.Uintptr
	entries sync.Map // number → weak.Pointer[T]
}

func (t *callbackTable[T]) add(x *T) uintptr {
	id := t.last.Add(1)
	t.entries.Store(id, weak.Make(x))
	return id
}

func (t *callbackTable[T]) remove(ids ...uintptr) {
	for _, id := range ids {
		t.entries.Delete(id)
	}
}

// find returns the object, or nil if it was removed.
func (t *callbackTable[T]) find(id uintptr) *T {
	p, ok := t.entries.Load(id)
	if !ok {
		return nil
	}
	return p.(weak.Pointer[T]).Value()
}

// A PanicError is a panic in a Go function that ggml called.
type PanicError struct {
	Value any    // the value passed to panic
	Stack []byte // the stack at the panic, in the form of debug.Stack
}

// Error contains the value of the panic.
func (e *PanicError) Error() string {
	e = made(e)
	return fmt.Sprintf("the function panicked: %v", e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	e = made(e)
	err, _ := e.Value.(error)
	return err
}

// protect runs f and returns its error. It turns a panic into an error: a panic must not unwind the
// C frames below.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}
