package docscheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

const root = "../.."

// pages returns the Markdown files of the tree.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || name == ".git" || name == filepath.Join("ggml", "lib")): // in a worktree .git is a file
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			found = append(found, path)
		}
		return nil
	}))
	return found
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

func read(t *testing.T, path string) string {
	t.Helper()
	text := need.Value(os.ReadFile(path))(t)
	return string(text)
}

// anchors returns GitHub's anchors of the headings of a page.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(strings.ReplaceAll(m[1], "[", ""), "")
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, title)] = true
	}
	return names
}

// brokenLinks returns the relative links of a page without a target.
func brokenLinks(t *testing.T, page, text string) []string {
	t.Helper()
	var broken []string
	text = codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		target := page
		if path != "" {
			target = filepath.Join(filepath.Dir(page), path)
		}
		info, err := os.Stat(target)
		if err != nil || anchor != "" && (info.IsDir() || !anchors(read(t, target))[anchor]) {
			broken = append(broken, m[1])
		}
	}
	return broken
}

func TestLinks(t *testing.T) {
	require.Equal(t, []string{"none.md", "#nothing", "links_test.go#anchor"},
		brokenLinks(t, "doc.go", "# A b\n[a](none.md) [b](#nothing) [c](links_test.go) [d](https://example.com) `[e](f.md)` [g](links_test.go#anchor)"))
	found := pages(t)
	require.Greater(t, len(found), 20)
	for _, page := range found {
		assert.Empty(t, brokenLinks(t, page, read(t, page)), page)
	}
}

// Every picture and every page of the documentation is linked.
func TestPagesAreLinked(t *testing.T) {
	linked := map[string]bool{}
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, _, _ := strings.Cut(m[1], "#")
			linked[filepath.Join(filepath.Dir(page), path)] = true
		}
	}
	entries := need.Value(filepath.Glob(filepath.Join(root, "docs", "*")))(t)
	for _, entry := range entries {
		if filepath.Base(entry) != "README.md" && filepath.Base(entry) != "benchmarks" && filepath.Base(entry) != "recipes" {
			assert.True(t, linked[entry], "nothing leads to %s", entry)
		}
	}
}
