package ggml_test

import (
	"cmp"
	"go/ast"
	"go/doc"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// The README's Go code is taken from Examples, which run.
func TestREADMECode(t *testing.T) {
	readme := need.Value(os.ReadFile("README.md"))(t)
	for section, file := range map[string]string{"Tensors": "example_test.go", "Use it in Go": "llm/example_test.go"} {
		_, rest, found := strings.Cut(string(readme), "## "+section+"\n\n```go\n")
		require.True(t, found, section)
		code, _, found := strings.Cut(rest, "```")
		require.True(t, found, section)
		example := need.Value(os.ReadFile(file))(t)
		require.Contains(t, unindent(string(example)), unindent(code))
	}
}

func unindent(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Names in brackets in a comment exist, in its package or in another one of ours.
func TestDocLinks(t *testing.T) {
	known := map[string]map[string]bool{} // names by package
	files := map[string][]*ast.File{}
	for _, folder := range publicFolders(t) {
		p, list := readPackage(t, folder)
		known[p.Name], files[p.Name] = documented(p), list
	}
	for name, list := range files {
		requireLinks(t, name, list, known)
	}
}

// publicFolders lists the folders of importable packages.
func publicFolders(t *testing.T) []string {
	t.Helper()
	folders := []string{".", "kernels", "llm"}
	entries := need.Value(os.ReadDir("llm"))(t)
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, filepath.Join("llm", e.Name()))
		}
	}
	return folders
}

func requireLinks(t *testing.T, pkg string, files []*ast.File, known map[string]map[string]bool) {
	link := regexp.MustCompile(`\[\*?(?:([a-z]\w*)\.)?([A-Z]\w+(?:\.[A-Z]\w+)?)\]`)
	for _, f := range files {
		for _, group := range f.Comments {
			for _, m := range link.FindAllStringSubmatch(group.Text(), -1) {
				if names, ours := known[cmp.Or(m[1], pkg)]; ours && m[2] != "INST" { // a token of templates
					assert.True(t, names[m[2]], "%s: [%s] in %q", pkg, m[0], strings.SplitN(group.Text(), "\n", 2)[0])
				}
			}
		}
	}
}

// documented returns the names of a package that a comment can refer to.
func documented(p *doc.Package) map[string]bool {
	known := map[string]bool{}
	for _, f := range p.Funcs {
		known[f.Name] = true
	}
	values := append(p.Consts, p.Vars...)
	for _, noun := range p.Types {
		known[noun.Name] = true
		values = append(values, append(noun.Consts, noun.Vars...)...)
		for _, f := range noun.Funcs {
			known[f.Name] = true
		}
		for _, f := range noun.Methods {
			known[noun.Name+"."+f.Name] = true
		}
		for _, spec := range noun.Decl.Specs {
			if s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						known[noun.Name+"."+name.Name] = true
					}
				}
			}
		}
	}
	for _, v := range values {
		for _, name := range v.Names {
			known[name] = true
		}
	}
	return known
}

// Every type that a function makes, that can be closed, or that is an error has a runnable example.
func TestEveryNounHasAnExample(t *testing.T) {
	for _, folder := range []string{".", "kernels", "llm", "llm/arch", "llm/chat", "llm/device", "llm/generate", "llm/infer", "llm/lora", "llm/model", "llm/sample"} {
		p, _ := readPackage(t, folder)
		for _, noun := range p.Types {
			examples := noun.Examples
			for _, f := range append(noun.Funcs, noun.Methods...) {
				examples = append(examples, f.Examples...)
			}
			if isEnum(noun) || len(noun.Funcs) == 0 && !hasMethod(noun, "Close") && !hasMethod(noun, "Error") {
				continue
			}
			assert.NotEmpty(t, examples, "type %s.%s", p.Name, noun.Name)
			for _, e := range examples {
				assert.True(t, e.Output != "" || e.EmptyOutput, "example %s of %s is not run: it has no output", e.Name, p.Name)
			}
		}
	}
}

// isEnum reports whether the type is a number, which its constants document.
func isEnum(t *doc.Type) bool {
	spec, ok := t.Decl.Specs[0].(*ast.TypeSpec)
	if !ok {
		return false
	}
	_, ok = spec.Type.(*ast.Ident)
	return ok
}

func hasMethod(t *doc.Type, name string) bool {
	return slices.ContainsFunc(t.Methods, func(f *doc.Func) bool { return f.Name == name })
}

// Each name in scripts/sequential names a test or a script: a misspelt one would run under the race detector.
func TestSequentialNames(t *testing.T) {
	list := need.Value(os.ReadFile("scripts/sequential"))(t)
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case path == "build":
			return fs.SkipDir
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
			return err
		}
		return nil
	}))
	for name := range strings.Lines(string(list)) {
		if name = strings.TrimSpace(name); name != "" && name[0] != '#' {
			assert.True(t, tests[name], "scripts/sequential: there is no %s", name)
		}
	}
}

// make race runs what starts goroutines and what several use, and leaves out where nothing can race.
func TestRacingFolders(t *testing.T) {
	out := need.Value(exec.Command("sh", "scripts/racing").Output())(t)
	racing := strings.Fields(string(out))
	require.Subset(t, racing, []string{".", "./llm/train", "./llm/serve", "./examples/finetune"})
	require.NotContains(t, racing, "./internal/jinja")
}

// Setting up apt in a script does not change the script's variables: scripts/memcheck has options,
// too.
func TestAptKeepsVariables(t *testing.T) {
	if _, err := os.Stat("/etc/os-release"); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	for name, script := range map[string]string{
		"apt-get":    `case "$*" in *--print-uris*) echo "'http://example.invalid/debian/dists/stable/InRelease' x" ;; esac`,
		"apt-config": "", "dpkg": "echo amd64",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	names := "uri components options suite key sources"
	c := exec.Command("sh", "-euc", `root=$PWD work=$0; . scripts/lib.sh; mkdir "$work/lists"
		for name in $1; do eval "$name=mine"; done
		apt_ggml
		for name in $1; do eval "[ \"\$$name\" = mine ]" || echo "$name is another"; done
		[ "$APT_CONFIG" = "$work/apt.conf" ] && grep -c '^deb' "$work/sources.list"`, folder, names)
	c.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out := need.Output(t, c)
	require.Regexp(t, `^\d+\n$`, out)
}

// The tests of these packages are in external packages: an internal one would make the package, and all between it
// and the tests, compile twice.
func TestTestsAreOutside(t *testing.T) {
	for _, folder := range []string{".", "kernels", "llm/arch", "llm/model", "llm/parallel"} {
		files := need.Value(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
		require.NotEmpty(t, files)
		for _, file := range files {
			require.Regexp(t, `(?m)^package \w+_test$`, string(need.Value(os.ReadFile(file))(t)), file)
		}
	}
}
