package clitest

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// standIns replace programs that advice names and that are not installed. Each is the test binary under another
// name.
var standIns = map[string]func(name string, args []string) int{
	"go": runProgram, "llama-cli": checkFlags, "llama-completion": checkFlags,
}

// standInPath returns a folder of the script that contains the stand-ins.
func standInPath(ts *testscript.TestScript) string {
	folder := ts.MkAbs(".stand-ins")
	ts.Check(os.MkdirAll(folder, 0o700))
	test, err := os.Executable()
	ts.Check(err)
	for name := range standIns {
		if err := os.Symlink(test, filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			ts.Fatalf("%v", err)
		}
	}
	return folder
}

// runProgram replaces go run of this module's programs: it runs the programs built from this tree.
func runProgram(_ string, args []string) int {
	if len(args) < 2 || args[0] != "run" {
		return fail("go run alone is known, not go %v", args)
	}
	path, _, _ := strings.Cut(args[1], "@")
	name, ok := strings.CutPrefix(path, "github.com/goggml/ggml/examples/")
	program := os.Getenv("PROGRAM_" + name)
	if !ok || program == "" {
		return fail("%s is not a program of this module that advice names", args[1])
	}
	return become(program, args[2:]...)
}

// become runs another program with this process's streams, and returns 0, or the status of a failure.
func become(program string, args ...string) int {
	c := exec.Command(program, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fail("%s: %v", program, err)
	}
	return 0
}

// stockFlags has a file for each of llama.cpp's programs, with a line for each flag: its names, and = before an
// example of its value.
//
//go:embed stock
var stockFlags embed.FS

// StockRun is the environment variable that names the program which runs llama.cpp's own programs instead of
// the stand-ins.
const StockRun = "GOGGML_TEST_LLAMACPP"

// checkFlags stands in for a program of llama.cpp. It requires that all flags are the program's own, have
// values where they need them, and name existing files. It prints them, a line each.
func checkFlags(name string, args []string) int {
	if run := os.Getenv(StockRun); run != "" {
		return become(run, append([]string{name}, args...)...)
	}
	list, err := stockFlags.ReadFile("stock/" + name + ".txt")
	if err != nil {
		return fail("%v", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(list)) {
		names, value, _ := strings.Cut(strings.TrimSpace(line), " =")
		for _, flag := range strings.Fields(names) {
			values[flag] = value
		}
	}
	for i := 0; i < len(args); i++ {
		value, isFlag := values[args[i]]
		switch {
		case !isFlag:
			return fail("%s: error: invalid argument: %s", name, args[i])
		case value == "":
			fmt.Println(args[i])
			continue
		case i+1 == len(args):
			return fail("%s: error: %s: expected a value", name, args[i])
		}
		fmt.Printf("%s %s\n", args[i], args[i+1])
		if value == "FNAME" || strings.HasSuffix(value, "_FILE") {
			for _, path := range stockPaths(args[i], args[i+1]) {
				if _, err := os.Stat(path); err != nil {
					return fail("%s: error: %s: %v", name, args[i], err)
				}
			}
		}
		i++
	}
	return 0
}

// stockPaths returns the files in a flag's value. --lora takes several, separated by commas and quoted as in
// CSV.
func stockPaths(flag, value string) []string {
	if flag != "--lora" {
		return []string{value}
	}
	if inner, ok := strings.CutPrefix(value, `"`); ok {
		return []string{strings.ReplaceAll(strings.TrimSuffix(inner, `"`), `""`, `"`)}
	}
	return strings.Split(value, ",")
}

func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}
