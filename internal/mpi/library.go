package mpi

// #cgo linux LDFLAGS: -ldl
// #include "mpi.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// LibraryVariable is the environment variable that names the library if the search finds no suitable one.
const LibraryVariable = "GOGGML_MPI"

// Names of libraries: Open MPI 4 and 5; MPICH and libraries with its interface, such as Intel's; libraries with
// the standard interface.
var (
	openMPINames  = []string{"libmpi.so.40"}
	mpichNames    = []string{"libmpi.so.12", "libmpich.so.12"}
	standardNames = []string{"libmpi_abi.so.1", "libmpi_abi.so.0"}
)

func init() {
	if runtime.GOOS == "darwin" {
		openMPINames = []string{"libmpi.40.dylib", "/opt/homebrew/lib/libmpi.40.dylib"}
		mpichNames = []string{"libmpi.12.dylib", "/opt/homebrew/lib/libmpi.12.dylib"}
		standardNames = []string{"libmpi_abi.1.dylib", "libmpi_abi.0.dylib"}
	}
}

// candidates returns the libraries that may belong to the launcher.
func (l Launch) candidates() []string {
	if path := os.Getenv(LibraryVariable); path != "" {
		return []string{path}
	}
	if l.OpenMPI {
		return append(openMPINames, standardNames...)
	}
	list := append(mpichNames, standardNames...)
	if l.Size == 0 || strings.HasPrefix(l.variable, "SLURM") {
		list = append(list, openMPINames...)
	}
	return list
}

// open loads the launcher's library, and returns the library's description of itself.
func (l Launch) open() (version string, err error) {
	var tried []error
	for _, path := range l.candidates() {
		if err := load(path); err != nil {
			tried = append(tried, err)
			continue
		}
		version := libraryVersion()
		if other := l.misfit(version); other != "" {
			tried = append(tried, fmt.Errorf("%s is %s, but the launcher is %s", path, version, other))
			C.goggml_mpi_close()
			continue
		}
		return version, nil
	}
	name := "MPICH"
	if l.OpenMPI {
		name = "Open MPI"
	}
	return "", fmt.Errorf("%w, and without its library each would train alone: install the library of %s where the system finds it (LD_LIBRARY_PATH), or name it with %s: %w",
		&launchError{l}, name, LibraryVariable, errors.Join(tried...))
}

// misfit returns the launcher to which a library does not belong, or "".
func (l Launch) misfit(version string) string {
	isOpenMPI := strings.Contains(version, "Open MPI")
	switch {
	case os.Getenv(LibraryVariable) != "":
	case l.OpenMPI && !isOpenMPI:
		return "Open MPI's"
	case strings.HasPrefix(l.variable, "PMI_") && isOpenMPI:
		return "MPICH's, or of its kind"
	}
	return ""
}

// A launchError is an error of a launch.
type launchError struct{ Launch }

func (e *launchError) Error() string { return e.String() }

func load(path string) error {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var text [512]C.char
	if C.goggml_mpi_open(p, &text[0], C.size_t(len(text))) {
		return nil
	}
	return errors.New(C.GoString(&text[0]))
}

func libraryVersion() string {
	var text [256]C.char
	C.goggml_mpi_version(&text[0], C.size_t(len(text)))
	return shortVersion(C.GoString(&text[0]))
}

// shortVersion returns name and version from a library's description: "Open MPI v5.0.7, package: …", or "MPICH
// Version:\t4.2.1".
func shortVersion(text string) string {
	text, _, _ = strings.Cut(text, ",")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, " Version:", " ")), " ")
}

// callError returns the error of a library's error code.
func callError(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	var text [256]C.char
	C.goggml_mpi_error(code, &text[0], C.size_t(len(text)))
	return fmt.Errorf("MPI: %s: %s", call, C.GoString(&text[0]))
}
