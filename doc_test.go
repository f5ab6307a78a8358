package ggml_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every type that a function makes, or that is closed, or is an error, has a
// runnable example.
func TestEveryNounHasAnExample(t *testing.T) {
	fset := token.NewFileSet()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && name != "nocgo.go" {
			f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/goggml/ggml")
	require.NoError(t, err)
	require.NotEmpty(t, p.Types)
	for _, noun := range p.Types {
		examples := noun.Examples
		for _, f := range append(noun.Funcs, noun.Methods...) {
			examples = append(examples, f.Examples...)
		}
		if isEnum(noun) || len(noun.Funcs) == 0 && !hasMethod(noun, "Close") && !hasMethod(noun, "Error") {
			continue
		}
		require.NotEmpty(t, examples, "type %s", noun.Name)
		for _, e := range examples {
			require.True(t, e.Output != "" || e.EmptyOutput, "example %s is not run: it has no output", e.Name)
		}
	}
}

// isEnum tells whether the type is a number: its constants say all.
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
