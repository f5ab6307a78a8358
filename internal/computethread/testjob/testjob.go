// Package testjob has C functions for the tests of package computethread.
package testjob

// #include <stdlib.h>
// #include "testjob.h"
import "C"

import "unsafe"

// Add returns its thread, and adds *B to *A, both int64. Fail fails.
var Add, Fail = unsafe.Pointer(C.testjob_add), unsafe.Pointer(C.testjob_fail)

// Message reads the message of a failure, and frees it.
func Message(message unsafe.Pointer) string {
	defer C.free(message)
	return C.GoString((*C.char)(message))
}
