package ggml

// #include "csrc/goggml.h"
import "C"

// A Status is how the library ended a computation that failed: the cause in the
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

// Error describes the status as the library does.
// C: ggml_status_to_string.
func (s Status) Error() string { return C.GoString(C.ggml_status_to_string(C.enum_ggml_status(s))) }
