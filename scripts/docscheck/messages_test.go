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

// sources returns the code whose messages users see, with concatenated string literals joined.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || name == ".git" || name == filepath.Join("ggml", "lib") || name == filepath.Join("ggml", "glibc")):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_test.go") || d.IsDir():
			return nil
		case filepath.Dir(name) == "scripts" || regexp.MustCompile(`\.(go|c|h)$`).MatchString(name):
			all.WriteString(read(t, path) + "\n")
		}
		return nil
	}))
	return regexp.MustCompile(`" *\+\s*"`).ReplaceAllString(all.String(), "")
}

// All messages in docs/troubleshooting.md, the code spans in the first column of its tables, are in the code.
func TestMessages(t *testing.T) {
	code, messages := sources(t), 0
	for line := range strings.Lines(read(t, filepath.Join(root, "docs", "troubleshooting.md"))) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], " | ")
		for _, span := range codeSpan.FindAllString(cell, -1) {
			messages++
			assert.True(t, strings.Contains(code, strings.Trim(span, "`")), "no code says %s", span)
		}
	}
	require.Greater(t, messages, 20)
}
