package ggml

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers test for with errors.Is.
var (
	// ErrClosed is the use of an object after its Close.
	ErrClosed = errors.New("use of a closed object")
	// ErrNotLoaded is the use of a backend whose plugin is not installed. The
	// error that wraps it says how to install it.
	ErrNotLoaded = errors.New("backend is not loaded")
	// ErrNotAllocated is the use of the data of a tensor that has no memory.
	ErrNotAllocated = errors.New("tensor is not allocated")
	// ErrOutOfMemory is an allocation that a device refused.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrBroken is the use of a backend that failed inside a computation. Its
	// threads may be stuck: close it, and start a new process.
	ErrBroken = errors.New("backend is broken by an earlier failure")
	// ErrDisconnected is the use of a device whose RPC server is gone, and with
	// it the data there: close all that was made of its devices. Once that is
	// done they can be used again, if the server is there again.
	ErrDisconnected = errors.New("server is gone")
)

// An Operand describes a tensor in an [OpError].
type Operand struct {
	Name  string // name of the tensor, or the op that made it
	Type  Type
	Shape []int64 // [ne0, ne1, …], ne0 fastest, without trailing ones
}

// String gives the operand as "name type[ne0, ne1]".
func (o Operand) String() string {
	var b strings.Builder
	b.WriteString(o.Name)
	if o.Shape != nil {
		fmt.Fprintf(&b, " %v[", o.Type)
		for i, n := range o.Shape {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprint(&b, n)
		}
		b.WriteByte(']')
	}
	return b.String()
}

// An OpError is a failed operation on tensors: while a graph is built, while
// tensors are allocated, read or written, or before a graph is computed.
type OpError struct {
	Op       string    // the op, as in C without the ggml_ prefix
	Operands []Operand // the tensors it was given
	Reason   string    // what is wrong, and the remedy
	Caller   string    // file:line of the call outside this package
	Err      error     // the cause, when it is one of the errors above
}

// Error names the op, its operands, the reason and the caller's line.
func (e *OpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ggml: %s", e.Op)
	for i, o := range e.Operands {
		if i == 0 {
			b.WriteByte('(')
		} else {
			b.WriteString(", ")
		}
		b.WriteString(o.String())
	}
	if len(e.Operands) > 0 {
		b.WriteByte(')')
	}
	b.WriteString(": ")
	b.WriteString(e.Reason)
	if e.Caller != "" {
		fmt.Fprintf(&b, " (at %s)", e.Caller)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// A closedError is the use of a closed object.
type closedError struct {
	kind   string
	caller string
}

func (e *closedError) Error() string {
	return fmt.Sprintf("ggml: %s: %v (at %s)", e.kind, ErrClosed, e.caller)
}

func (e *closedError) Unwrap() error { return ErrClosed }

// during tells a closedError as the failure of an op on operands; other errors
// stay as they are.
func during(err error, op string, operands ...Operand) error {
	closed, ok := err.(*closedError)
	if !ok {
		return err
	}
	return &OpError{Op: op, Operands: operands, Reason: "the " + closed.kind + " is closed", Caller: closed.caller, Err: ErrClosed}
}
