package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// sourceDocuments makes one document a file: Go code without comments, in
// gofmt's form, a block a top-level declaration. Generated files are left out.
func sourceDocuments(pkgs []goPackage) ([]document, error) {
	var docs []document
	for _, p := range pkgs {
		if p.path == "builtin" {
			continue // declarations for the documentation only, no code
		}
		for _, name := range p.files {
			src, err := os.ReadFile(filepath.Join(p.dir, name))
			if err != nil {
				return nil, fmt.Errorf("package %s: %w", p.path, err)
			}
			if isGenerated(src) {
				continue
			}
			d := document{pkg: p.path, name: "source/" + p.path + "/" + name, header: 1}
			if d.blocks, err = codeBlocks(src); err != nil {
				return nil, fmt.Errorf("%s/%s: %w", p.path, name, err)
			}
			docs = append(docs, d)
		}
	}
	return docs, nil
}

// isGenerated looks for the usual marks above the package clause, those from
// before the convention included.
func isGenerated(src []byte) bool {
	head := src
	if i := bytes.Index(src, []byte("\npackage ")); i >= 0 {
		head = src[:i]
	}
	head = bytes.ToLower(head)
	return bytes.Contains(head, []byte("do not edit")) || bytes.Contains(head, []byte("created by cgo"))
}

// codeBlocks returns the package clause with the imports as the first block,
// then the declarations that are code rather than tables of data.
func codeBlocks(src []byte) ([]string, error) {
	code, err := format.Source(stripComments(src))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(pos token.Pos) int { return fset.Position(pos).Offset }
	headerEnd := offset(file.Name.End())
	var decls []string
	for _, decl := range file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.IMPORT {
			headerEnd = offset(decl.End())
			continue
		}
		// Apart from its neighbours a declaration may be aligned differently.
		text, err := format.Source(code[offset(decl.Pos()):offset(decl.End())])
		if err != nil {
			return nil, err
		}
		if isCode(string(text)) {
			decls = append(decls, string(text))
		}
	}
	header := strings.TrimSpace(string(code[:headerEnd]))
	return append([]string{header}, decls...), nil
}

// stripComments removes comments, and with a comment that stands alone its
// lines, so that no gaps remain between the lines around it.
func stripComments(src []byte) []byte {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments) // errors show when the result is parsed
	out := make([]byte, 0, len(src))
	copied := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return append(out, src[copied:]...)
		}
		if tok != token.COMMENT {
			continue
		}
		start := file.Offset(pos)
		end := commentEnd(src, start, lit)
		out = append(out, src[copied:start]...)
		copied = end
		before := bytes.TrimRight(out, " \t")
		alone := len(before) == 0 || before[len(before)-1] == '\n'
		rest := bytes.TrimLeft(src[end:], " \t\r")
		lineEnds := bytes.HasPrefix(rest, []byte("\n"))
		switch {
		case alone && lineEnds:
			out = before
			copied = len(src) - len(rest) + 1
		case !lineEnds && strings.Contains(lit, "\n"):
			out = append(out, '\n') // such a comment ends a statement
		}
	}
}

// commentEnd finds where a comment ends in src; its literal may be shorter,
// because the scanner drops carriage returns.
func commentEnd(src []byte, start int, lit string) int {
	mark := "\n"
	if strings.HasPrefix(lit, "/*") {
		mark = "*/"
	}
	i := bytes.Index(src[start+2:], []byte(mark))
	if i < 0 {
		return len(src)
	}
	end := start + 2 + i
	if mark == "*/" {
		end += len(mark)
	}
	return end
}

const maxLine = 300

// isCode tells declarations a person wrote from tables of numbers and long
// encoded strings. One that holds the document separator is refused too.
func isCode(text string) bool {
	if strings.Contains(text, documentSeparator) {
		return false
	}
	for _, line := range strings.Split(text, "\n") {
		if len(line) > maxLine {
			return false
		}
	}
	visible, digits := 0, 0
	for _, r := range text {
		if !unicode.IsSpace(r) {
			visible++
		}
		if unicode.IsDigit(r) {
			digits++
		}
	}
	return digits*5 <= visible
}
