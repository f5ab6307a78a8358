// Apicheck compares ggml's C headers with the binding. Every function of the headers must be named after "C:"
// in the doc comment of an exported Go symbol, or be listed in exceptions.txt with a reason. Names in the
// comments and in that file must exist.
//
//	go run ./scripts/apicheck [-headers DIR] [-package DIR]
//
// It prints the problems and exits with 1, or with 0 if there are none.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed exceptions.txt
var exceptions string

// headerNames are the headers whose functions are bound.
var headerNames = []string{
	"ggml.h", "ggml-alloc.h", "ggml-backend.h", "ggml-cpu.h", "ggml-opt.h", "gguf.h",
	"ggml-cuda.h", "ggml-metal.h", "ggml-vulkan.h", "ggml-blas.h", "ggml-rpc.h",
}

func main() {
	headers := flag.String("headers", "", "the `folder` of ggml's headers; by default where the C compiler finds them")
	pkg := flag.String("package", ".", "the `folder` of the Go package")
	flag.Parse()
	r, err := run(*headers, *pkg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
		os.Exit(1)
	}
	fmt.Print(r)
	if r.failed() {
		os.Exit(1)
	}
}

func run(headers, pkg string) (*report, error) {
	if headers == "" {
		var err error
		if headers, err = findHeaders(pkg); err != nil {
			return nil, err
		}
	}
	c, err := readHeaders(headers, headerNames)
	if err != nil {
		return nil, err
	}
	b, err := readPackage(pkg)
	if err != nil {
		return nil, err
	}
	e, err := parseExceptions(exceptions)
	if err != nil {
		return nil, err
	}
	return compare(c, b, e), nil
}

// findHeaders finds the headers through the C compiler, as a build of the package does.
func findHeaders(pkg string) (string, error) {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	args := []string{"-I" + filepath.Join(pkg, "ggml", "include")}
	if flags, err := exec.Command("pkg-config", "--cflags", "ggml").Output(); err == nil {
		args = append(args, strings.Fields(string(flags))...)
	}
	cmd := exec.Command(compiler, append(args, "-M", "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader("#include <ggml.h>\n")
	rule, err := cmd.Output()
	if err != nil {
		return "", errors.New("the C compiler finds no ggml.h; run scripts/vendor, or give the folder by -headers")
	}
	for _, file := range strings.Fields(string(rule)) {
		if filepath.Base(file) == "ggml.h" {
			return filepath.Dir(file), nil
		}
	}
	return "", fmt.Errorf("%s -M does not tell where ggml.h is; give the folder by -headers", compiler)
}
