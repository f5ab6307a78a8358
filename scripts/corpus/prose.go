package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// proseDocuments makes one document a package out of its doc comments: the
// package's own, then those of constants, variables, functions, types and
// their members, unexported ones included, for they explain the most.
func proseDocuments(pkgs []goPackage) ([]document, error) {
	var docs []document
	for _, p := range pkgs {
		texts, parse, err := docComments(p)
		if err != nil {
			return nil, err
		}
		d := document{pkg: p.path, name: "prose/" + p.path}
		for _, text := range texts {
			d.blocks = append(d.blocks, paragraphs(parse(text))...)
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// docComments returns the comments of a package in the order in which its
// documentation shows them, and the parser that knows the package's names.
func docComments(p goPackage) ([]string, func(string) *comment.Doc, error) {
	fset := token.NewFileSet()
	byName := make(map[string][]*ast.File)
	for _, name := range p.files {
		// Not with SkipObjectResolution: up to Go 1.24 go/doc needs each file's scope.
		file, err := parser.ParseFile(fset, filepath.Join(p.dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, nil, fmt.Errorf("package %s: %w", p.path, err)
		}
		byName[file.Name.Name] = append(byName[file.Name.Name], file)
	}
	// A directory may also hold a generator's package main.
	files := largestGroup(byName)
	variants := takeVariants(files)
	pkg, err := doc.NewFromFiles(fset, files, p.path, doc.AllDecls)
	if err != nil {
		return nil, nil, fmt.Errorf("package %s: %w", p.path, err)
	}
	c := collector{texts: []string{pkg.Doc}}
	c.values(pkg.Consts)
	c.values(pkg.Vars)
	c.funcs(pkg.Funcs)
	for _, t := range pkg.Types {
		c.texts = append(c.texts, t.Doc)
		c.members(t.Decl)
		c.values(t.Consts)
		c.values(t.Vars)
		c.funcs(t.Funcs)
		c.funcs(t.Methods)
	}
	return append(c.texts, variants...), pkg.Parser().Parse, nil
}

// takeVariants removes the second and later declaration of a function, which
// other operating systems and processors have, and returns their comments.
// Given several, go/doc picks one by the order of a map.
func takeVariants(files []*ast.File) []string {
	var texts []string
	seen := make(map[string]bool)
	isVariant := func(decl ast.Decl) bool {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			return false
		}
		key := receiver(f) + "." + f.Name.Name
		if seen[key] {
			texts = append(texts, f.Doc.Text())
			return true
		}
		seen[key] = true
		return false
	}
	for _, file := range files {
		file.Decls = slices.DeleteFunc(file.Decls, isVariant)
	}
	return texts
}

// receiver is the name of a method's type, empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	var name string
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name // the first one, before any type parameter
		}
		return name == ""
	})
	return name
}

func largestGroup(byName map[string][]*ast.File) []*ast.File {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	sort.Strings(names)
	sort.SliceStable(names, func(i, j int) bool { return len(byName[names[i]]) > len(byName[names[j]]) })
	return byName[names[0]]
}

type collector struct{ texts []string }

func (c *collector) values(values []*doc.Value) {
	for _, v := range values {
		c.texts = append(c.texts, v.Doc)
	}
}

func (c *collector) funcs(funcs []*doc.Func) {
	for _, f := range funcs {
		c.texts = append(c.texts, f.Doc)
	}
}

// members adds the comments of struct fields and interface methods, which
// go/doc leaves in the declaration.
func (c *collector) members(decl ast.Node) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Doc != nil {
			c.texts = append(c.texts, field.Doc.Text())
		}
		return true
	})
}

// paragraphs returns the prose of a comment, a paragraph a line. Headings,
// code and lists are left out.
func paragraphs(d *comment.Doc) []string {
	var out []string
	for _, block := range d.Content {
		p, ok := block.(*comment.Paragraph)
		if !ok {
			continue
		}
		text := strings.Join(strings.Fields(plain(p.Text)), " ")
		if text = dropLeadIn(text); isProse(text) {
			out = append(out, text)
		}
	}
	return out
}

func plain(text []comment.Text) string {
	var sb strings.Builder
	for _, t := range text {
		switch t := t.(type) {
		case comment.Plain:
			sb.WriteString(string(t))
		case comment.Italic:
			sb.WriteString(string(t))
		case *comment.Link:
			sb.WriteString(plain(t.Text))
		case *comment.DocLink:
			sb.WriteString(plain(t.Text))
		}
	}
	return sb.String()
}

// dropLeadIn cuts a last sentence that announces code or a list, which is gone.
func dropLeadIn(text string) string {
	if !strings.HasSuffix(text, ":") {
		return text
	}
	return text[:strings.LastIndex(text, ". ")+1]
}

const minWords = 5

// isProse tells sentences from notes, signatures, tables and addresses.
func isProse(text string) bool {
	if len(strings.Fields(text)) < minWords || !strings.ContainsAny(text[len(text)-1:], ".!?") {
		return false
	}
	if strings.Contains(text, "://") || strings.HasPrefix(text, "TODO") || strings.HasPrefix(text, "BUG") {
		return false
	}
	runes, wordy := 0, 0
	for _, r := range text {
		runes++
		if unicode.IsLetter(r) || r == ' ' {
			wordy++
		}
	}
	return wordy*100 >= runes*88
}
