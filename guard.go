package ggml

// #include "csrc/goggml.h"
import "C"

import (
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

const packagePrefix = "github.com/goggml/ggml."

// callerLine gives file:line of the innermost caller outside this package.
func callerLine() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, packagePrefix) && !strings.HasSuffix(f.File, "_test.go")
		if f.File != "" && !inside {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// withCString runs f with a C copy of s.
func withCString[T any](s string, f func(*C.char) T) T {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	return f(c)
}
