// Package pages compares pages of the documentation, or sections of them, with the code that they describe. The
// TestPages of a package generates their texts, and scripts/pages writes them.
package pages

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

var write = flag.Bool("pages", false, "write generated pages of the documentation anew")

// Check requires that a page has this text.
func Check(t testing.TB, path, text string) {
	t.Helper()
	if *write {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	got := need.Value(os.ReadFile(path))(t)
	if line, have, want := difference(string(got), text); line > 0 {
		require.Failf(t, "run scripts/pages", "%s:%d is not what the code says:\n%s\ninstead of\n%s", path, line, have, want)
	}
}

// difference returns the first line in which two texts differ, counted from 1; 0 if they are equal.
func difference(have, want string) (line int, haveLine, wantLine string) {
	for have != want {
		haveLine, have, _ = strings.Cut(have, "\n")
		wantLine, want, _ = strings.Cut(want, "\n")
		if line++; haveLine != wantLine || have == want { // also a different line ending
			return line, haveLine, wantLine
		}
	}
	return 0, "", ""
}

// CheckSection requires that a section of a page has this text. The text around the marks is written by hand:
//
//	<!-- scripts/pages writes NAME -->
//	…
//	<!-- end of NAME -->
func CheckSection(t testing.TB, path, name, text string) {
	t.Helper()
	page := need.Value(os.ReadFile(path))(t)
	begin, end := "<!-- scripts/pages writes "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, begins := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "%s has no section between %q and %q", path, begin, end)
	Check(t, path, before+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+after)
}
