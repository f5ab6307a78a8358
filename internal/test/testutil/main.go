// Package testutil has what the tests of several packages share.
package testutil

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// Main runs the tests of a package, or the [Job] for which the process was started, and fails if they leave
// objects of package ggml open.
func Main(m Tests) { os.Exit(Checked(computing{m}).Run()) }

// computing are tests that compute in Go, for which fewer garbage collections save an eighth of the processor time. Tests of
// programs keep the usual number: Linux counts the memory of a process that starts a program as the program's, too.
type computing struct{ Tests }

func (c computing) Run() int {
	debug.SetGCPercent(400)
	return c.Tests.Run()
}

// Checked returns tests that fail if they leave objects open.
func Checked(m Tests) Tests { return checked{m} }

// Tests are the tests of a package: *testing.M.
type Tests interface{ Run() int }

// InFolder returns tests that run after setup has made files in a temporary folder, which is removed afterwards.
func InFolder(m Tests, setup func(folder string) error) Tests { return inFolder{m, setup} }

type inFolder struct {
	Tests
	setup func(folder string) error
}

func (f inFolder) Run() int {
	folder, err := os.MkdirTemp("", "tests")
	if err == nil {
		defer os.RemoveAll(folder)
		err = f.setup(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return f.Tests.Run()
}

// checked tests fail if they leave objects open.
type checked struct{ Tests }

func (c checked) Run() int {
	code, ran := runJob()
	if !ran {
		if os.Getenv("GOGGML_BENCH") == "facts" {
			printFacts()
		}
		code = c.Tests.Run()
	}
	if open := ggml.OpenObjects(); code == 0 && len(open) > 0 {
		fmt.Fprintln(os.Stderr, "tests left objects open:", open)
		code = 1
	}
	return code
}

// printFacts prints facts about the machine, in Go's format for benchmark results.
func printFacts() {
	fmt.Println("ggml:", ggml.Version())
	if name, err := kernels.GEMMLibrary(); err == nil && name != "" {
		fmt.Println("gemm-library:", name)
	}
	features, err := ggml.CPUFeatures()
	if err != nil {
		return // without a CPU backend the benchmarks themselves fail
	}
	var names []string
	for _, f := range features {
		if f.Value == "1" {
			names = append(names, f.Name)
		}
	}
	fmt.Println("cpu-features:", strings.Join(names, " "))
}
