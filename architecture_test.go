package ggml_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/goggml/ggml"

// layers lists the folders from the bottom to the top, as docs/architecture.md draws them. A package imports none of a
// layer above its own; the tools of tests, which stand above kernels, are imported by tests and by one another alone.
var layers = [][]string{
	{"csrc", "internal/computethread", "internal/counted", "internal/exclusive", "internal/filelink", "internal/filelock", "internal/gpudriver", "internal/jinja", "internal/lifetime", "internal/limits", "internal/mapped", "internal/mpi", "internal/plainjson", "internal/recordfile", "internal/rpcrelay", "internal/rpcwire", "internal/rss", "internal/testhook"},
	{"."},
	{"internal/rebuild", "kernels"},
	{"rpc"},
	{"internal/fused", "internal/nn", "internal/operands", "internal/state", "llm/chat", "llm/layout", "llm/tokenizer", "llm/data"},
	{"llm/arch", "llm/grammar", "llm/parallel", "llm/safetensors", "llm/sample"},
	{"llm/device", "llm/quantize"},
	{"llm/estimate"},
	{"llm/model"},
	{"llm/weightcache"},
	{"llm/lossgraph"},
	{"llm/infer", "llm/lora"},
	{"llm/generate", "llm/ollama", "llm/train"},
	{"llm/distill", "llm/preference", "llm/run"},
	{"llm"},
	{"llm/serve"},
	{"examples", "scripts"},
}

// layerOf returns the layer of a package by its folder; false for a tool of tests.
func layerOf(folder string) (int, bool) {
	layer, found, longest := 0, false, -1
	for i, folders := range layers {
		for _, f := range folders {
			if (folder == f || strings.HasPrefix(folder, f+"/")) && len(f) > longest {
				layer, found, longest = i, true, len(f)
			}
		}
	}
	return layer, found
}

func TestLayers(t *testing.T) {
	packages := 0
	eachSource(t, ".", func(path string) {
		folder := filepath.ToSlash(filepath.Dir(path))
		layer, production := layerOf(folder)
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !production {
			return
		}
		packages++
		for _, imported := range imports(t, path) {
			if imported == "C" {
				assert.False(t, strings.HasPrefix(folder, "llm"), "%s uses cgo", path)
			}
			rest, ours := strings.CutPrefix(imported, modulePath)
			if !ours {
				continue
			}
			of := "."
			if rest != "" {
				of = rest[1:]
			}
			below, known := layerOf(of)
			if !known { // only what helps tests in turn, and scripts
				assert.True(t, folder == "examples/internal/clitest" || strings.HasPrefix(folder, "scripts/"), "%s imports %s, which is a tool of tests", path, imported)
				continue
			}
			assert.LessOrEqual(t, below, layer, "%s imports %s, which is of a layer above", path, imported)
		}
	})
	require.Greater(t, packages, 100)
}

// tests are the folders of tests of the whole; what tests share is below internal/test.
var tests = []string{"internal/fuzz", "internal/fuzz/calls", "internal/fuzz/calls/faulty", "internal/fuzz/rpc", "internal/interop"}

func TestEveryFolderHasALayer(t *testing.T) {
	eachSource(t, ".", func(path string) {
		folder := filepath.ToSlash(filepath.Dir(path))
		_, known := layerOf(folder)
		assert.True(t, known || strings.HasPrefix(folder, "internal/test/") || slices.Contains(tests, folder), "%s is of no layer, and no tool of tests", path)
	})
}

// Files that programs write are written by internal/filelink, which leaves whole files and no device replaced. What is
// written otherwise is no output.
var otherWriters = map[string]string{
	"internal/filelock/create.go": "locks",
	"internal/recordfile/file.go": "a cache that grows by a record at a time, and that stays open",
	"llm/data/cache.go":           "a cache that several processes fill, and that stays open",
	"llm/lora/peft_folder.go":     "the folder in which two files become those of the adapter at once",
	"llm/parallel/broadcast.go":   "a temporary file, which is removed",
	"llm/run/events.go":           "a log with a new name at each start",
	"llm/run/folder.go":           "the lock of a run",
	"rpc/cache.go":                "a cache, whose entries have their size before their data",
	"scripts/equal/main.go":       "models in a scratch folder",
	"scripts/equal/run/main.go":   "results in a scratch folder",
}

func TestOneWriter(t *testing.T) {
	unused := maps.Clone(otherWriters)
	eachSource(t, ".", func(path string) {
		folder := filepath.ToSlash(filepath.Dir(path))
		_, production := layerOf(folder)
		ofTests := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(folder, "test") || strings.HasSuffix(folder, "/testdata")
		if !production || ofTests || filepath.Ext(path) != ".go" || folder == "internal/filelink" {
			return
		}
		for _, call := range fileCalls(t, path) {
			assert.Contains(t, otherWriters, path, "%s: %s; write by internal/filelink", path, call)
			delete(unused, path)
		}
	})
	assert.Empty(t, unused, "they write nothing")
}

// fileCalls lists calls by which a file of Go makes, renames or links files.
func fileCalls(t *testing.T, path string) (calls []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := types.ExprString(call.Fun)
		makes := slices.Contains([]string{"os.Create", "os.CreateTemp", "os.WriteFile", "os.Rename", "os.Link"}, name)
		if makes || name == "os.OpenFile" && !strings.HasPrefix(types.ExprString(call.Args[1]), "os.O_RDONLY") {
			calls = append(calls, types.ExprString(call))
		}
		return true
	})
	return calls
}

// The binding names ggml's own BLAS backend, but no kernel, and no GEMM library of one.
func TestBindingNamesNoKernel(t *testing.T) {
	named := regexp.MustCompile(`(?i)onednn|dnnl|openblas|onemkl|\bgemm\b|\bgemv\b|kern_|\b(` + strings.Join(kernelNames(t), "|") + `)\b`)
	eachSource(t, ".", func(path string) {
		folder := filepath.Dir(path)
		if folder != "." && folder != "csrc" || strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, "BLAS backend") && !strings.Contains(line, `pluginPackage("blas")`) {
				assert.Empty(t, named.FindString(line), "%s:%d", path, i+1)
			}
		}
	})
}

// kernelNames lists the functions and types that kernels exports, and its ops as profiles show them.
func kernelNames(t *testing.T) []string {
	exported := regexp.MustCompile(`(?m)^(?:func|type) ([A-Z]\w+)|NativeOp\{\s*Name: "(\w+)"`)
	var names []string
	eachSource(t, "kernels", func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range exported.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1]+m[2])
		}
	})
	require.Contains(t, names, "CausalAttention")
	require.Contains(t, names, "causal_attention_grad")
	// Names that ggml has too.
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{"AdamWOperands", "Pair", "Attention", "CrossEntropy"}, name)
	})
}

// eachSource calls f for the Go and C files below a folder.
func eachSource(t *testing.T, root string, f func(path string)) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"build", "ggml", "testdata", "docs"}, path) || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case slices.Contains([]string{".go", ".c", ".h"}, filepath.Ext(path)):
			f(path)
		}
		return nil
	}))
}

func imports(t *testing.T, path string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	require.NoError(t, err)
	var list []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		list = append(list, name)
	}
	return list
}
