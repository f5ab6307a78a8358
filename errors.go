package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers test for with errors.Is.
var (
	// ErrClosed reports the use of an object after its Close.
	ErrClosed = errors.New("use of a closed object")
	// ErrZeroValue reports the use of nil, or of a zero value such as &Device{}, of a type whose values only
	// this package makes.
	ErrZeroValue = errors.New("use of nil or a zero value: tensors come from a Context, devices from Devices, other objects from the functions that make or open them")
	// ErrBusy reports the use, inside a [CustomFunc] or a callback of a computation, of an object that
	// the computation needs until its end.
	ErrBusy = errors.New("deadlock: called from inside a computation that needs this until its end; use it after the computation")
	// ErrNotLoaded reports the use of a backend whose plugin is not installed. The error that wraps it says
	// how to install it.
	ErrNotLoaded = errors.New("backend is not loaded")
	// ErrNotAllocated reports the use of the data of an unallocated tensor.
	ErrNotAllocated = errors.New("tensor is not allocated")
	// ErrOutOfMemory reports that a device refused an allocation.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrBroken reports the use of a backend that failed inside a computation. Its threads may be stuck: close
	// it, and start a new process.
	ErrBroken = errors.New("backend is broken by an earlier failure")
	// ErrDisconnected reports the use of a device whose RPC server is gone, together with the data there.
	// Close all objects made of its devices; they can then be used again if the server is back.
	ErrDisconnected = errors.New("server is gone")
)

// An Operand describes a tensor in an [OpError].
type Operand struct {
	Name  string // name of the tensor, or of the op that made it
	Type  Type
	Shape []int64 // [ne0, ne1, …], ne0 fastest, without trailing ones
}

// String returns the operand as "name type[ne0, ne1]".
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

// An OpError is a failed operation on tensors: while building a graph, while allocating, reading or
// writing tensors, or before computing a graph.
type OpError struct {
	Op       string    // the op, as in C without the ggml_ prefix, or the function that was called: Write, Scheduler.Compute
	Operands []Operand // its arguments
	Reason   string    // what is wrong, and the remedy
	Caller   string    // file:line of the call outside this package
	Err      error     // the cause, if it is one of the errors above

	namesCall bool // Op is the function that was called
}

// Error names the op, its operands, the reason and the caller's line.
func (e *OpError) Error() string {
	e = made(e)
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
func (e *OpError) Unwrap() error {
	e = made(e)
	return e.Err
}

// A useError is the use of an object that is closed, invalid, or computing.
type useError struct {
	kind string // kind of the object, if it is closed
	call call
	err  error // ErrClosed, ErrZeroValue or ErrBusy
}

func (e *useError) Error() string {
	if e.kind == "" {
		return fmt.Sprintf("ggml: %v (at %s)", e.err, e.call.line)
	}
	return fmt.Sprintf("ggml: %s: %v (at %s)", e.kind, e.err, e.call.line)
}

func (e *useError) Unwrap() error { return e.err }

// errNil is the cause of an error that names a nil value; errors.Is matches it with ErrZeroValue.
var errNil error = nilError{}

type nilError struct{}

func (nilError) Error() string { return "operand is nil" }

func (nilError) Is(target error) bool { return target == ErrZeroValue }

// made returns x, or a zero value if x is nil: methods treat nil and zero values alike.
func made[T any](x *T) *T {
	if x == nil {
		return new(T)
	}
	return x
}

// zeroError returns the error for a nil pointer or zero value.
func zeroError() error { return &useError{call: outerCall(), err: ErrZeroValue} }

// during turns a useError into the failure of a call with operands; it returns other errors
// unchanged.
func during(err error, operands ...Operand) error {
	use, ok := err.(*useError)
	if !ok {
		return err
	}
	reason := "the " + use.kind + " is closed"
	if use.kind == "" {
		reason = use.err.Error()
	}
	return use.call.failed(use.err, reason, operands...)
}

// callError returns the failure of the current call into this package.
func callError(cause error, reason string, operands ...Operand) *OpError {
	return outerCall().failed(cause, reason, operands...)
}

// failed returns the failure of the call.
func (c call) failed(cause error, reason string, operands ...Operand) *OpError {
	return &OpError{Op: c.function, Operands: operands, Reason: reason, Caller: c.line, Err: cause, namesCall: true}
}

// A Status is the way ggml ended a failed computation. The error of a Compute wraps it, for
// errors.Is. C: enum ggml_status.
type Status int

// The statuses. The error of a cancelled computation is the cause of its context.Context instead,
// and lack of memory is [ErrOutOfMemory].
const (
	StatusOutOfMemory Status = C.GGML_STATUS_ALLOC_FAILED
	StatusFailed      Status = C.GGML_STATUS_FAILED
	StatusSuccess     Status = C.GGML_STATUS_SUCCESS
	StatusCancelled   Status = C.GGML_STATUS_ABORTED
)

// Error describes the status as ggml does.
// C: ggml_status_to_string.
func (s Status) Error() string { return C.GoString(C.ggml_status_to_string(C.enum_ggml_status(s))) }
