package ggml_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sources parses the files of this folder, the tests or the others.
func sources(t *testing.T, tests bool) []*ast.File {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

// builders finds the exported methods of Context that make a tensor, and their
// documentation.
func builders(t *testing.T) map[string]string {
	docs := map[string]string{}
	for _, f := range sources(t, false) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && fn.Name.IsExported() && pointerTo(fn.Recv.List[0].Type, "Context") && returns(fn, "Tensor") {
				docs[fn.Name.Name] = strings.Join(strings.Fields(fn.Doc.Text()), " ")
			}
		}
	}
	return docs
}

func pointerTo(e ast.Expr, name string) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	id, ok := star.X.(*ast.Ident)
	return ok && id.Name == name
}

func returns(fn *ast.FuncDecl, name string) bool {
	return fn.Type.Results != nil && len(fn.Type.Results.List) == 1 && pointerTo(fn.Type.Results.List[0].Type, name)
}

// caseFunctions finds the functions of the tests that return cases.
func caseFunctions(t *testing.T, of string) []*ast.FuncDecl {
	var functions []*ast.FuncDecl
	for _, f := range sources(t, true) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
				continue
			}
			list, ok := fn.Type.Results.List[0].Type.(*ast.ArrayType)
			if !ok {
				continue
			}
			if id, ok := list.Elt.(*ast.Ident); ok && id.Name == of {
				functions = append(functions, fn)
			}
		}
	}
	return functions
}

// method names the op of c.Name or (*ctx).Name.
func method(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		if x.Name == "c" {
			return s.Sel.Name
		}
	case *ast.ParenExpr:
		if pointerTo(x.X, "ctx") {
			return s.Sel.Name
		}
	}
	return ""
}

// covered finds the ops that cases are about: whose result they return, or which
// they name as a function.
func covered(functions []*ast.FuncDecl) map[string]bool {
	ops := map[string]bool{}
	for _, fn := range functions {
		called := map[ast.Expr]bool{}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called[n.Fun] = true
			case *ast.ReturnStmt:
				for _, r := range n.Results {
					if call, ok := r.(*ast.CallExpr); ok {
						ops[method(call.Fun)] = true
					}
				}
			case *ast.SelectorExpr:
				if !called[n] {
					ops[method(n)] = true
				}
			}
			return true
		})
	}
	delete(ops, "")
	return ops
}

// notOps make a tensor but compute nothing, or call functions of the program.
var notOps = []string{"NewTensor", "NewTensorLike", "NewF32", "NewI32", "Alias", "Lookup", "Custom", "CustomInPlace", "MapCustom", "MapCustomInPlace"}

func TestEveryOpHasReference(t *testing.T) {
	docs := builders(t)
	require.Greater(t, len(docs), 150)
	for _, name := range notOps {
		require.Contains(t, docs, name)
		delete(docs, name)
	}
	tested := covered(caseFunctions(t, "opCase"))
	for name := range docs {
		assert.True(t, tested[name], "no case compares Context.%s with its reference", name)
	}
	// Every function of cases is run.
	run := covered(nil)
	for _, f := range sources(t, true) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && (fn.Name.Name == "opCases" || fn.Name.Name == "TestGradients") {
				ast.Inspect(fn, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if id, ok := call.Fun.(*ast.Ident); ok {
							run[id.Name] = true
						}
					}
					return true
				})
			}
		}
	}
	for _, fn := range append(caseFunctions(t, "opCase"), caseFunctions(t, "gradCase")...) {
		require.True(t, run[fn.Name.Name] || fn.Name.Name == "opCases", "the cases of %s are not listed", fn.Name.Name)
	}
}

// hasBackward tells what the documentation of an op says: as long as it says
// nothing, and the op does not work in place, it has one.
func hasBackward(name, doc string) bool {
	return !strings.HasSuffix(name, "InPlace") && !strings.Contains(doc, "no backward") && !strings.Contains(doc, "It stops gradients")
}

func TestEveryBackwardHasCentralDifferences(t *testing.T) {
	tested := map[string]bool{}
	for _, fn := range caseFunctions(t, "gradCase") {
		ast.Inspect(fn, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				tested[method(s)] = true
			}
			return true
		})
	}
	documented := 0
	for name, doc := range builders(t) {
		if slices.Contains(notOps, name) || !hasBackward(name, doc) {
			continue
		}
		documented++
		assert.True(t, tested[name], "no case compares the gradients of Context.%s with central differences", name)
	}
	require.Greater(t, documented, 40)
}
