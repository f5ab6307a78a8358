package docscheck

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxWords limits the front page.
const maxWords = 700

// prose returns the text of a page without code blocks and addresses of links.
func prose(text string) string {
	text = codeBlock.ReplaceAllString(text, "")
	return link.ReplaceAllString(text, "]")
}

// words are separated by spaces and table bars, and contain a letter or a digit. Words in tables, headings and
// descriptions of pictures count.
func words(text string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(prose(text), func(r rune) bool { return strings.ContainsRune(" \t\n|", r) }),
		func(word string) bool { return !regexp.MustCompile(`[\pL\pN]`).MatchString(word) })
}

func TestREADMELength(t *testing.T) {
	require.Equal(t, []string{"Name", "A", "[link]", "1.5"}, words("# Name\n```sh\ncode\n```\n| A | – | [link](page.md) 1.5 |\n|---|---|"))
	length := len(words(read(t, filepath.Join(root, "README.md"))))
	t.Logf("%d words", length)
	require.LessOrEqual(t, length, maxWords)
	require.Greater(t, length, maxWords/3)
}

// The front page names the commands that try and test everything; features that it says are missing have no
// page.
func TestREADMEIsTrue(t *testing.T) {
	readme := read(t, filepath.Join(root, "README.md"))
	for _, target := range []string{"finetune", "test", "fuzz"} {
		assert.Contains(t, readme, "`make "+target+"`")
	}
	_, limits, _ := strings.Cut(readme, "## Limits")
	limits, _, _ = strings.Cut(limits, "\n## ")
	require.Contains(t, limits, "not on Windows")
	assert.NotContains(t, limits, "machines", "docs/machines.md is how several train")
}

// figure matches a measurement: a number with its unit, or a table cell of one.
var figure = regexp.MustCompile(`\d[\d.,]* ?(?:×|times|GB|MB|min|minutes|tokens/s|%)(?:[^\pL]|$)`)

func figures(text string) []string {
	var found []string
	for _, f := range figure.FindAllString(prose(text), -1) {
		found = append(found, strings.TrimRight(f, " \n.,;:)|"))
	}
	return found
}

// Every figure on the front page is in docs/benchmarks/summary.md, which scripts/pages computes from the tables
// of measurements.
func TestREADMEFigures(t *testing.T) {
	require.Equal(t, []string{"2.0 times", "6 GB", "43 min"}, figures("Trains 2.0 times, in 6 GB.\n| x | 43 min |\n12 timesheets, Go 1.24, 0.27.0 or newer"))
	summary, count := read(t, filepath.Join(root, "docs", "benchmarks", "summary.md")), 0
	for _, f := range figures(read(t, filepath.Join(root, "README.md"))) {
		count++
		assert.True(t, regexp.MustCompile(`(^|[^\d.])`+regexp.QuoteMeta(f)+`($|[^\pL])`).MatchString(summary), "%s is not in docs/benchmarks/summary.md", f)
	}
	require.GreaterOrEqual(t, count, 8)
}
