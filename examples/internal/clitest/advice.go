package clitest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// advice is a command of scripts: [!] advice own|llama.cpp [ARG...] runs in a shell the command lines that the
// last program advised, with the arguments appended. Commands of these programs run unchanged. Commands of
// llama.cpp run as stand-ins that know its flags; in interop tests llama.cpp itself runs. Their output becomes
// the script's stdout and stderr.
func (s *scripts) advice(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || args[0] != "own" && args[0] != "llama.cpp" {
		ts.Fatalf("usage: advice own|llama.cpp [ARG...]")
	}
	list := slices.DeleteFunc(advised(ts.ReadFile("stdout")+ts.ReadFile("stderr")), func(a advisedLine) bool {
		return strings.HasPrefix(a.line, "llama-") != (args[0] == "llama.cpp")
	})
	if len(list) == 0 {
		ts.Fatalf("no program of %s is advised", args[0])
	}
	if slices.ContainsFunc(list, func(a advisedLine) bool { return strings.HasPrefix(a.line, "go run ") }) {
		program, err := buildProgram("generate")
		ts.Check(err)
		ts.Setenv("PROGRAM_generate", program)
	}
	folders := ts.Getenv("PATH")
	defer ts.Setenv("PATH", folders)
	ts.Setenv("PATH", standInPath(ts)+string(filepath.ListSeparator)+folders)
	for _, a := range list {
		err := ts.Exec("sh", append([]string{"-c", a.line + ` "$@"`, "sh"}, args[1:]...)...)
		if (err != nil) != neg {
			ts.Fatalf("%s: %v", a.line, err)
		}
		s.mu.Lock()
		for _, part := range partsOf(a.line) {
			s.ran[part] = true
		}
		s.titles[a.title] = true
		s.mu.Unlock()
	}
}

// again is a command of scripts: [!] again REGEXP PROGRAM [ARG...] runs a program with the flags that the last
// program advised: the first group of the expression, split as by a shell.
func again(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	match := regexp.MustCompile(args[0]).FindStringSubmatch(text)
	if len(match) < 2 {
		ts.Fatalf("nothing matches %s in %s", args[0], text)
	}
	if err := ts.Exec("sh", append([]string{"-c", `"$@" ` + match[1], "sh"}, args[1:]...)...); (err != nil) != neg {
		ts.Fatalf("with %s: %v", match[1], err)
	}
}

// An advisedLine is a command line that a program advises, and its purpose.
type advisedLine struct{ title, line string }

// advised returns the command lines that a text advises: each is indented below its purpose.
func advised(text string) (list []advisedLine) {
	title := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isIndented := strings.CutPrefix(line, "  ")
		if isIndented && strings.HasSuffix(title, ":") && !strings.HasPrefix(command, " ") && !strings.HasSuffix(title, " wrong:") {
			list = append(list, advisedLine{strings.TrimSuffix(title, ":"), command})
		}
		title = line
	}
	return list
}

// sourceTitles returns the titles of advice in the sources of the test's folder and of examples/internal;
// finetune uses all of those packages.
func sourceTitles() (titles []string, err error) {
	patterns := []string{"*.go"}
	if here, err := filepath.Abs("."); err == nil && filepath.Base(here) == "finetune" {
		patterns = append(patterns, "../internal/*/*.go")
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range adviceFor.FindAllSubmatch(text, -1) {
				titles = append(titles, string(m[1]))
			}
		}
	}
	return titles, nil
}

var adviceFor = regexp.MustCompile(`cli\.Advice\{\s*For:\s*"([^"]+)"`)

// partsOf returns the program of a command line with its command, and again with each flag.
func partsOf(line string) (parts []string) {
	program := ""
	for i, word := range strings.Fields(strings.TrimPrefix(line, "go run ")) {
		name, _, _ := strings.Cut(strings.Trim(word, "'"), "=")
		switch {
		case i == 0:
			name, _, _ = strings.Cut(name, "@")
			program = path.Base(name)
		case i == 1 && !strings.HasPrefix(name, "-"):
			program += " " + name
		case isFlag.MatchString(name):
			parts = append(parts, program+" "+name)
		}
	}
	return append(parts, program)
}

var isFlag = regexp.MustCompile(`^--?[a-z][a-z-]*$`)

// testRun returns the pattern of -run.
func testRun() string { return flag.Lookup("test.run").Value.String() }

// buildProgram builds another program of the module once, and returns its path.
func buildProgram(name string) (string, error) {
	built.Lock()
	defer built.Unlock()
	if program, ok := built.programs[name]; ok {
		return program, nil
	}
	program := filepath.Join(filepath.Dir(programFolder()), name)
	c := exec.Command("go", "build", "-o", program, "../"+name)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out.String())
	}
	built.programs[name] = program
	return program, nil
}

var built = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// programFolder returns the folder in which testscript puts the programs under test. Its parent folder is
// removed at the end.
func programFolder() string {
	first, _, _ := strings.Cut(os.Getenv("PATH"), string(filepath.ListSeparator))
	return first
}
