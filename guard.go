package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	_ "github.com/goggml/ggml/csrc" // so that a change there rebuilds this package
)

func init() { C.goggml_install() }

// guardError turns the message of a failed guarded call into an error, and
// frees it. A nil message is no error.
func guardError(message *C.char) error {
	if message == nil {
		return nil
	}
	text := C.GoString(message)
	C.free(unsafe.Pointer(message))
	return errors.New(cleanMessage(text))
}

// cleanMessage drops the folder of the C source file from "file:line: text".
func cleanMessage(text string) string {
	text = strings.TrimSpace(text)
	file, rest, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	return filepath.Base(file) + ":" + rest
}

// callerLine gives file:line of the innermost caller outside this package, and
// outside the package that builds an op of its own by BuildOp. A program that
// does so in its main package has no such caller: its innermost frame counts.
func callerLine() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	own, _ := frames.Next()
	caller, builder, innermost, built := "", "", "", false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		// The folder tells the package: functions that are inlined are named after the caller's.
		folder, test := filepath.Dir(f.File), strings.HasSuffix(f.File, "_test.go")
		line := filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		switch {
		case folder == filepath.Dir(own.File) && !test:
			if strings.HasSuffix(f.Function, ".(*Context).BuildOp") { // all frames so far are inside
				caller, built = "", true
			}
		case f.File == "" || strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "testing."):
		case built && !test:
			builder, innermost, built = folder, line, false
		case folder == builder && !test: // by way of a function that calls back
			caller = ""
		case caller == "":
			caller = line
		}
	}
	return cmp.Or(caller, innermost)
}

// withCString runs f with a C copy of s.
func withCString[T any](s string, f func(*C.char) T) T {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	return f(c)
}
