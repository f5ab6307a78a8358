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
	// ErrClosed is the use of an object after its Close.
	ErrClosed = errors.New("use of a closed object")
	// ErrZeroValue is the use of nil, or of a zero value, like &Device{}, of a type whose
	// values this package makes.
	ErrZeroValue = errors.New("use of nil or a zero value: tensors come from a Context, devices from Devices, other objects from the functions that make or open them")
	// ErrBusy is the use, inside a [CustomFunc] or a callback of a computation, of
	// something that the computation needs until its end.
	ErrBusy = errors.New("deadlock: called from inside a computation that needs this until its end; use it after the computation")
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
	Op       string    // the op, as in C without the ggml_ prefix, or the function that was called: Write, Scheduler.Compute
	Operands []Operand // the tensors it was given
	Reason   string    // what is wrong, and the remedy
	Caller   string    // file:line of the call outside this package
	Err      error     // the cause, when it is one of the errors above

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

// A useError is the use of an object that is closed, was never made, or computes.
type useError struct {
	kind string // of the object, when it is closed
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

// errNil is the cause of an error that names a nil value: it counts as ErrZeroValue.
var errNil error = nilError{}

type nilError struct{}

func (nilError) Error() string { return "operand is nil" }

func (nilError) Is(target error) bool { return target == ErrZeroValue }

// made is an object whose method is called, or a zero value in place of nil: nobody has made
// either, and their methods give the same.
func made[T any](x *T) *T {
	if x == nil {
		return new(T)
	}
	return x
}

// zeroError is the use of a nil pointer or a zero value where an object is wanted.
func zeroError() error { return &useError{call: outerCall(), err: ErrZeroValue} }

// during gives a useError as the failure of a call with operands; other errors
// stay as they are.
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

// callError is the failure of the call into this package.
func callError(cause error, reason string, operands ...Operand) *OpError {
	return outerCall().failed(cause, reason, operands...)
}

// failed is the failure of the call.
func (c call) failed(cause error, reason string, operands ...Operand) *OpError {
	return &OpError{Op: c.function, Operands: operands, Reason: reason, Caller: c.line, Err: cause, namesCall: true}
}

// A Status is how ggml ended a computation that failed: the cause in the
// error of a Compute, for errors.Is. C: enum ggml_status.
type Status int

// The statuses. The error of a computation that was cancelled is the cause of
// its context.Context instead, and no memory is [ErrOutOfMemory].
const (
	StatusOutOfMemory Status = C.GGML_STATUS_ALLOC_FAILED
	StatusFailed      Status = C.GGML_STATUS_FAILED
	StatusSuccess     Status = C.GGML_STATUS_SUCCESS
	StatusCancelled   Status = C.GGML_STATUS_ABORTED
)

// Error describes the status as ggml does.
// C: ggml_status_to_string.
func (s Status) Error() string { return C.GoString(C.ggml_status_to_string(C.enum_ggml_status(s))) }
