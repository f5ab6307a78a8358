package docscheck

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTest = regexp.MustCompile("`(?:[a-z/-]+ )?(Test[A-Z]\\w+|[a-z-]+\\.txtar)`")
)

// Tests and scripts that pages name as proofs exist.
func TestProofs(t *testing.T) {
	proofs := map[string]bool{}
	for _, folder := range []string{"llm", "kernels", "internal", "examples", "scripts"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			proofs[filepath.Base(path)] = true
			if err == nil && strings.HasSuffix(path, "_test.go") {
				for _, m := range testFunc.FindAllStringSubmatch(read(t, path), -1) {
					proofs[m[1]] = true
				}
			}
			return err
		}))
	}
	named := 0
	for _, page := range pages(t) {
		for _, m := range namedTest.FindAllStringSubmatch(read(t, page), -1) {
			named++
			assert.True(t, proofs[m[1]], "%s: there is no %s", page, m[1])
		}
	}
	require.Greater(t, named, 100)
}
