package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/pages"
)

func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	dir := need.Value(findHeaders(root))(t)
	if dir != filepath.Join(root, "ggml", "include") {
		t.Skip("the system's ggml may be of another version than the one that scripts/vendor fetches, of which the page is")
	}
	c := need.Value(readHeaders(dir, headerNames))(t)
	b := need.Value(readPackage(root))(t)
	list := need.Value(parseExceptions(exceptions))(t)
	pages.CheckSection(t, filepath.Join(root, "docs", "functions.md"), "functions", functionTables(c, b, list))
}

// functionTables returns a table for each header: its functions with their Go symbols, or the reason why they
// have none.
func functionTables(c *cAPI, b *binding, list []exception) string {
	why := map[string]string{}
	for _, e := range list {
		for _, name := range c.excepts(e.name) {
			why[name] = e.reason
		}
	}
	claimed := new(report).resolve(c, b.claims)
	var text strings.Builder
	header := ""
	for _, f := range c.functions {
		if f.header != header {
			header = f.header
			fmt.Fprintf(&text, "\n## %s\n\n| C | Go |\n|---|---|\n", header)
		}
		binds := "– " + why[f.name]
		if symbol := claimed[f.name]; symbol != "" {
			binds = "`" + symbol + "`"
		}
		fmt.Fprintf(&text, "| `%s` | %s |\n", f.name, binds)
	}
	return text.String()
}
