package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
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
	if slices.ContainsFunc(memoryAssertions, func(a string) bool { return strings.Contains(text, "GGML_ASSERT("+a+")") }) ||
		slices.ContainsFunc(memoryExceptions, func(e string) bool { return strings.Contains(text, e) }) {
		return errMemory
	}
	return errors.New(cleanMessage(text))
}

// released logs why a device does not take memory back: it is lost, or was left in the middle of a
// computation. The process continues without that memory.
func released(e *C.char) {
	if err := guardError(e); err != nil {
		logger().Warn("ggml: memory of a device is lost: " + err.Error())
	}
}

// errMemory is memory that a device refused, and what to do.
var errMemory = fmt.Errorf("%w; %s", ErrOutOfMemory, lessMemory)

const lessMemory = "close something, or use a smaller model or batch"

// memoryAssertions are the assertions of ggml that fail for lack of memory: in a device of a meta
// device, in a meta device's weights, and in a context.
var memoryAssertions = []string{"bufs.back() != nullptr", "meta_buf_ctx->bufs[i]", "ctx->mem_buffer != NULL"}

// memoryExceptions are texts of C++ and Vulkan exceptions for lack of memory.
var memoryExceptions = []string{"std::bad_alloc", "ErrorOutOfDeviceMemory", "ErrorOutOfHostMemory"}

// cleanMessage drops the folder of the C source file from "file:line: text".
func cleanMessage(text string) string {
	text = strings.TrimSpace(text)
	file, rest, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	return filepath.Base(file) + ":" + rest
}

// A call is one into this package.
type call struct {
	line     string // file:line
	function string // what is called: Write, Tensor.WriteAt
}

// callerLine is the line of the call into this package.
func callerLine() string { return outerCall().line }

// outerCall is the call by the innermost caller outside this package, and
// outside the package that builds an op of its own by BuildOp. A program that
// does so in its main package has no such caller: its innermost frame counts.
func outerCall() call {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	own, _ := frames.Next()
	caller, builder, innermost, built, function := "", "", "", false, ""
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
			if caller == "" {
				function = f.Function
			}
		case f.File == "" || strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "testing."):
		case built && !test:
			builder, innermost, built = folder, line, false
		case folder == builder && !test: // called through a function with a callback
			caller = ""
		case caller == "":
			caller = line
		}
	}
	return call{cmp.Or(caller, innermost), exportedName(function)}
}

// inFunction matches what the runtime appends to the names of functions: type arguments, and of function literals.
var inFunction = regexp.MustCompile(`\[.*?\]|(\.(func|gowrap|deferwrap)?\d+|-range\d+)+$`)

// exportedName is a function or method as documentation names it, of a name as the runtime has it.
func exportedName(function string) string {
	name := inFunction.ReplaceAllString(function[strings.LastIndexByte(function, '/')+1:], "")
	_, name, _ = strings.Cut(name, ".")
	return strings.NewReplacer("(*", "", ")", "").Replace(name)
}

// withCString runs f with a C copy of s.
func withCString[T any](s string, f func(*C.char) T) T {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	return f(c)
}
