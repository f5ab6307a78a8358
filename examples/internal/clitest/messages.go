package clitest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// checkMessage validates a line that a program prints: style and wording.
func checkMessage(line string) error {
	if name, err := goName(line); name != "" || err != nil {
		return errors.Join(err, fmt.Errorf("a message has the Go name %s, which its reader does not know: %s", name, line))
	}
	if m := oneOfMany.FindString(line); m != "" {
		return fmt.Errorf("%q: a message counts one of many: %s", m, line)
	}
	return nil
}

// oneOfMany matches a count of 1 with a plural.
var oneOfMany = regexp.MustCompile(`(^|[ (])1 (` + strings.Join([]string{
	"adapters", "arguments", "bytes", "calls", "characters", "columns", "devices", "dimensions", "elements", "epochs", "examples", "fields", "files", "flags", "folders", "heads", "keys", "layers",
	"lines", "matrices", "messages", "models", "parameters", "positions", "prompts", "records", "rows", "runs", "samples", "sequences", "steps", "tensors",
	"texts", "threads", "tokens", "turns", "values", "weights", "warnings", "words",
}, "|") + `)\b`)

// goName returns an exported Go name of the library in a line, or "".
func goName(line string) (string, error) {
	names, err := exportedNames()
	for _, word := range words.FindAllString(line, -1) {
		if names[word] {
			return word, err
		}
	}
	return "", err
}

// words matches words with several capitals, as in Go names.
var words = regexp.MustCompile(`\b[A-Z]\w*[a-z]\w*[A-Z]\w*|\b[A-Z]{2,}[a-z]\w+`)

// known are Go names that are also terms of the field.
var known = strings.Fields("AdamW LoRA NEFTune RoPE")

// exportedNames returns the exported names of the library that cannot be ordinary words of a message.
var exportedNames = sync.OnceValues(func() (map[string]bool, error) {
	names := map[string]bool{}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() && words.FindString(id.Name) == id.Name && !slices.Contains(known, id.Name) {
				names[id.Name] = true
			}
		}
	}
	set := token.NewFileSet()
	tree := os.DirFS(repository())
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		first, _, _ := strings.Cut(path, "/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && !slices.Contains([]string{".", "llm", "kernels"}, first):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BlockStmt:
					return false
				case *ast.FuncDecl:
					add(n.Name)
				case *ast.TypeSpec:
					add(n.Name)
				case *ast.ValueSpec:
					add(n.Names...)
				case *ast.Field:
					add(n.Names...)
				}
				return true
			})
		}
		return nil
	})
	return names, err
})

// repository returns the folder of the binding's module, found from the test's folder upwards.
func repository() string {
	folder := "."
	for range 5 {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder
		}
		folder = filepath.Join(folder, "..")
	}
	panic("there is no go.work above the test")
}
