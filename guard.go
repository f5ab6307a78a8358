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

	_ "github.com/goggml/ggml/csrc" // a change of csrc rebuilds this package
)

func init() { C.goggml_install() }

// guardError turns the message of a failed guarded call into an error, and frees the message. A nil
// message means success.
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

// released logs why a device could not free memory: the device is lost, or was stopped during a
// computation. The process continues without that memory.
func released(e *C.char) {
	if err := guardError(e); err != nil {
		logger().Warn("ggml: memory of a device is lost: " + err.Error())
	}
}

// errMemory reports that a device refused memory, with the remedy.
var errMemory = fmt.Errorf("%w; %s", ErrOutOfMemory, lessMemory)

const lessMemory = "close something, or use a smaller model or batch"

// memoryAssertions lists assertions of ggml that fail if memory is short: in a device of a meta
// device, in a meta device's weights, and in a context.
var memoryAssertions = []string{"bufs.back() != nullptr", "meta_buf_ctx->bufs[i]", "ctx->mem_buffer != NULL"}

// memoryExceptions lists texts of C++ and Vulkan exceptions that mean memory is short.
var memoryExceptions = []string{"std::bad_alloc", "ErrorOutOfDeviceMemory", "ErrorOutOfHostMemory"}

// cleanMessage removes the folder of the C source file from "file:line: text".
func cleanMessage(text string) string {
	text = strings.TrimSpace(text)
	file, rest, found := strings.Cut(text, ":")
	if !found {
		return text
	}
	return filepath.Base(file) + ":" + rest
}

// A call describes a call into this package.
type call struct {
	line     string // file:line
	function string // the called function: Write, Tensor.WriteAt
}

// callerLine returns the line of the call into this package.
func callerLine() string { return outerCall().line }

// outerCall returns the call by the innermost caller outside this package. A package that calls
// BuildOp to build an op of its own counts as inside, unless it is the main package: then its
// innermost frame counts.
func outerCall() call {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	own, _ := frames.Next()
	caller, builder, innermost, built, function := "", "", "", false, ""
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		// The folder identifies the package: inlined functions are named after their caller.
		folder, test := filepath.Dir(f.File), strings.HasSuffix(f.File, "_test.go")
		line := filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		switch {
		case folder == filepath.Dir(own.File) && !test:
			if strings.HasSuffix(f.Function, ".(*Context).BuildOp") { // all frames up to here are inside
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

// inFunction matches the suffixes that the runtime appends to function names: type arguments, and
// the numbers of function literals.
var inFunction = regexp.MustCompile(`\[.*?\]|(\.(func|gowrap|deferwrap)?\d+|-range\d+)+$`)

// exportedName turns the runtime's name of a function or method into its documented name.
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
