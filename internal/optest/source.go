package optest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Source is the syntax of a package of ops and of its tests: it shows which ops there are, and which the functions
// that return cases are about.
type Source struct {
	Ops       map[string]string // the documentation of exported functions and methods that make tensors in a Context
	qualifier string
	tests     []*ast.FuncDecl
}

// ParseSource parses the package in the working folder. Its tests call an op with this qualifier: "c" in c.Add.
func ParseSource(t *testing.T, qualifier string) *Source {
	s := &Source{Ops: map[string]string{}, qualifier: qualifier}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case strings.HasSuffix(name, "_test.go"):
				s.tests = append(s.tests, fn)
			case fn.Name.IsExported() && takesContext(fn) && returnsTensors(fn):
				s.Ops[fn.Name.Name] = strings.Join(strings.Fields(fn.Doc.Text()), " ")
			}
		}
	}
	return s
}

// takesContext reports whether a function is a method of Context, or takes one first.
func takesContext(fn *ast.FuncDecl) bool {
	if fn.Recv != nil {
		return pointerTo(fn.Recv.List[0].Type, "Context")
	}
	params := fn.Type.Params.List
	return len(params) > 0 && pointerTo(params[0].Type, "Context")
}

func returnsTensors(fn *ast.FuncDecl) bool {
	if fn.Type.Results == nil {
		return false
	}
	for _, r := range fn.Type.Results.List {
		if !pointerTo(r.Type, "Tensor") {
			return false
		}
	}
	return true
}

// pointerTo reports whether an expression is *name or *package.name.
func pointerTo(e ast.Expr, name string) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch x := star.X.(type) {
	case *ast.Ident:
		return x.Name == name
	case *ast.SelectorExpr:
		return x.Sel.Name == name
	}
	return false
}

// caseFunctions are those that return a slice of these cases.
func (s *Source) caseFunctions(of string) []*ast.FuncDecl {
	var functions []*ast.FuncDecl
	for _, fn := range s.tests {
		if fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
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
	return functions
}

// op is the name in c.Name or (*ctx).Name.
func (s *Source) op(e ast.Expr) string {
	x, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch of := x.X.(type) {
	case *ast.Ident:
		if of.Name == s.qualifier {
			return x.Sel.Name
		}
	case *ast.ParenExpr:
		if pointerTo(of.X, "ctx") {
			return x.Sel.Name
		}
	}
	return ""
}

// Tested are the ops whose result cases return, or which they name as a function.
func (s *Source) Tested(cases string) map[string]bool {
	ops := map[string]bool{}
	for _, fn := range s.caseFunctions(cases) {
		called := map[ast.Expr]bool{}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called[n.Fun] = true
			case *ast.ReturnStmt:
				for _, r := range n.Results {
					if call, ok := r.(*ast.CallExpr); ok {
						ops[s.op(call.Fun)] = true
					}
				}
			case *ast.SelectorExpr:
				if !called[n] {
					ops[s.op(n)] = true
				}
			}
			return true
		})
	}
	return ops
}

// Used are the ops that cases call or name.
func (s *Source) Used(cases string) map[string]bool {
	ops := map[string]bool{}
	for _, fn := range s.caseFunctions(cases) {
		ast.Inspect(fn, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				ops[s.op(x)] = true
			}
			return true
		})
	}
	return ops
}

// Unlisted are the functions of cases that the one that lists all cases does not call.
func (s *Source) Unlisted(cases, list string) []string {
	called := map[string]bool{list: true}
	for _, fn := range s.tests {
		if fn.Name.Name == list {
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					called[id.Name] = true
				}
				return true
			})
		}
	}
	var unlisted []string
	for _, fn := range s.caseFunctions(cases) {
		if !called[fn.Name.Name] {
			unlisted = append(unlisted, fn.Name.Name)
		}
	}
	return unlisted
}
