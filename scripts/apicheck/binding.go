package main

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A claim is the text after "C:" in the doc comment of an exported Go symbol.
type claim struct{ symbol, text string }

// A binding is the API of the Go package.
type binding struct {
	claims  []claim
	symbols map[string]bool // "Func", "Type", "Type.Method"
	used    map[string]bool // names after "C." in exported declarations
}

// readPackage reads the binding in a folder, and package rpc below it.
func readPackage(dir string) (*binding, error) {
	b := &binding{symbols: map[string]bool{}, used: map[string]bool{}}
	for _, folder := range []string{".", "rpc"} {
		p, err := b.parse(filepath.Join(dir, folder))
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		own := &binding{symbols: map[string]bool{}}
		own.collect(p)
		prefix := strings.TrimPrefix(folder+".", "..")
		for name := range own.symbols {
			b.symbols[prefix+name] = true
		}
		for _, c := range own.claims {
			b.claims = append(b.claims, claim{prefix + c.symbol, c.text})
		}
	}
	return b, nil
}

// parse reads the package in a folder; nil if there is none.
func (b *binding) parse(dir string) (*doc.Package, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "nocgo.go" {
			continue // nocgo.go has another package name, which makes a build without cgo fail
		}
		// Files of all build tags and systems count.
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		b.collectUses(file)
		files = append(files, file)
	}
	return doc.NewFromFiles(set, files, "github.com/goggml/ggml")
}

// collectUses records which C names the exported declarations of a file use.
func (b *binding) collectUses(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				b.collectNames(d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if exportedSpec(spec) {
					b.collectNames(spec)
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr: // generic type
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func exportedSpec(spec ast.Spec) bool {
	switch x := spec.(type) {
	case *ast.ValueSpec:
		return slices.ContainsFunc(x.Names, (*ast.Ident).IsExported)
	case *ast.TypeSpec:
		return x.Name.IsExported()
	}
	return false
}

func (b *binding) collectNames(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "C" {
				b.used[s.Sel.Name] = true
			}
		}
		return true
	})
}

func (b *binding) collect(p *doc.Package) {
	b.values(p.Consts)
	b.values(p.Vars)
	b.functions("", p.Funcs)
	for _, t := range p.Types {
		b.symbol(t.Name, t.Doc)
		b.fields(t)
		b.values(t.Consts)
		b.values(t.Vars)
		b.functions("", t.Funcs)
		b.functions(t.Name+".", t.Methods)
	}
}

func (b *binding) functions(prefix string, list []*doc.Func) {
	for _, f := range list {
		b.symbol(prefix+f.Name, f.Doc)
	}
}

func (b *binding) values(groups []*doc.Value) {
	for _, g := range groups {
		b.symbol(strings.Join(g.Names, ", "), g.Doc)
		for _, spec := range g.Decl.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				if name.IsExported() {
					b.symbol(name.Name, v.Doc.Text(), v.Comment.Text())
				}
			}
		}
	}
}

// fields collects the fields of structs and the methods of interfaces.
func (b *binding) fields(t *doc.Type) {
	for _, spec := range t.Decl.Specs {
		var list *ast.FieldList
		switch x := spec.(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			list = x.Fields
		case *ast.InterfaceType:
			list = x.Methods
		}
		if list == nil {
			continue
		}
		for _, f := range list.List {
			for _, name := range f.Names {
				if name.IsExported() {
					b.symbol(t.Name+"."+name.Name, f.Doc.Text(), f.Comment.Text())
				}
			}
		}
	}
}

var claimMark = regexp.MustCompile(`(?:^|\s)C:\s`)

// symbol records an exported symbol with its comments.
func (b *binding) symbol(name string, comments ...string) {
	b.symbols[name] = true
	for _, text := range comments {
		marks := claimMark.FindAllStringIndex(text, -1)
		if len(marks) > 0 {
			last := marks[len(marks)-1]
			b.claims = append(b.claims, claim{name, text[last[1]:]})
		}
	}
}
